// Several GPUs: layers are shared, results cross between them, calls fail.
#include <doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "engine/session/engine_impl.h"
#include "tests/cuda/failing.h"
#include "tests/cuda/gpus.h"
#include "tests/small_steps.h"

namespace infer::cuda {
namespace {

using infer::test::cuda_driver;
using infer::test::Failing;
using infer::test::Gpus;
using infer::test::small_model;
using infer::test::small_steps;
using infer::test::TestGpu;

std::vector<TestGpu> two(bool peers, bool virtual_memory) {
  const TestGpu gpu{.virtual_memory = virtual_memory, .peers = peers};
  return {gpu, gpu};
}

TEST_CASE("several GPUs: layers are shared, and the text is the same") {
  const std::vector<int32_t> expected =
      infer::test::generate(small_steps("cuda"), open_device).value();
  for (const bool peers : {true, false}) {
    for (const bool virtual_memory : {true, false}) {
      INFO("peers " << peers << ", virtual memory " << virtual_memory);
      const Gpus gpus(two(peers, virtual_memory));
      const int64_t before = cuda_driver().peer_copies();
      CHECK(infer::test::generate(small_steps("cuda:0,cuda:1"), open_device).value() == expected);
      CHECK((cuda_driver().peer_copies() > before) == peers);
      CHECK(cuda_driver().live() == 0);
    }
  }
}

TEST_CASE("several GPUs: a driver that refuses what it promised costs direct copies alone") {
  const std::vector<int32_t> expected =
      infer::test::generate(small_steps("cuda"), open_device).value();
  std::vector<TestGpu> gpus = two(true, true);
  for (TestGpu& gpu : gpus) gpu.refuses_peers = true;
  const Gpus here(gpus);
  std::string said;
  set_log_callback([&](Verbosity, std::string_view text) { said += text; });
  const int64_t before = cuda_driver().peer_copies();
  CHECK(infer::test::generate(small_steps("cuda:0,cuda:1"), open_device).value() == expected);
  set_log_callback({});
  CHECK(cuda_driver().peer_copies() == before);
  CHECK(said.find("copies to other GPUs go through the host") != std::string::npos);
  CHECK(cuda_driver().live() == 0);
}

TEST_CASE("several GPUs: both have layers, the rest is the CPU's") {
  const Gpus gpus(two(true, true));
  LoadOptions load = small_steps("cuda:0,cuda:1");
  const auto all = plan_model(small_model(), load).value();
  REQUIRE(all.devices.size() == 3);
  CHECK(all.devices[1].weights > 0);
  CHECK(all.devices[2].weights > 0);
  CHECK(all.gpu_layers == all.layers + 1);
  load.gpu_layers = 1;
  const auto one = plan_model(small_model(), load).value();
  CHECK(one.gpu_layers == 1);
  CHECK(one.devices[0].weights > 0);
  CHECK(infer::test::generate(load, open_device).has_value());
}

TEST_CASE("several devices: CUDA, Vulkan and the CPU in one run") {
  const auto vulkan = open_device("vulkan:0", {});
  if (!vulkan) {
    infer::test::skipped("no Vulkan device: " + vulkan.error().message());
    return;
  }
  const std::string path = infer::test::data_path("golden/smollm3-f32.gguf");  // four layers
  const std::vector<int32_t> prompt{1, 30, 26, 29};
  const std::vector<int32_t> expected =
      infer::test::generate(small_steps("cpu"), open_device, path, prompt).value();
  LoadOptions load = small_steps("cuda:0,vulkan:0");
  load.placements = {{"blk[.]0[.]", "cpu"}, {"blk[.]2[.]", "vulkan:0"}};
  const auto plan = plan_model(path, load).value();
  REQUIRE(plan.devices.size() == 3);
  for (const DeviceMemoryReport& device : plan.devices) CHECK(device.weights > 0);
  CHECK(infer::test::generate(load, open_device, path, prompt).value() == expected);
}

TEST_CASE("several GPUs: each call that fails comes to a typed failure, and nothing is leaked") {
  const Gpus gpus(two(true, true));
  Failing driver;
  infer::test::check_failing_calls(driver, "cuda:0,cuda:1", open_device, 30);
}

TEST_CASE("a copy from another GPU") {
  const Gpus gpus(two(true, true));
  const auto from = CudaDevice::open(0, false).value();
  const auto to = CudaDevice::open(1, false).value();
  const auto cpu = open_device("cpu", {.threads = 1}).value();
  CHECK(to->reaches(*from));
  CHECK_FALSE(to->reaches(*to));
  CHECK_FALSE(to->reaches(*cpu));
  CHECK_FALSE(cpu->reaches(*to));
  const auto a = from->alloc(4096, Purpose::activations).value();
  const auto b = to->alloc(4096, Purpose::activations).value();
  const std::vector<std::byte> data(1000, std::byte{7});
  REQUIRE(from->write(data, {a.get(), 256}).ok());
  REQUIRE(to->copy_from(*from, {a.get(), 256}, {b.get(), 512}, 1000).ok());
  std::vector<std::byte> back(1000);
  REQUIRE(to->read({b.get(), 512}, back).ok());
  CHECK(back == data);
  CHECK(cpu->copy_from(*from, {a.get(), 0}, {b.get(), 0}, 16).code() == StatusCode::unsupported);
}

}  // namespace
}  // namespace infer::cuda
