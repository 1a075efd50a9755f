// Telemetry of GPUs that CUDA uses: found by their place on the bus.
#include <doctest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "engine/session/engine_impl.h"
#include "engine/telemetry/device_telemetry.h"
#include "infer/infer.h"
#include "tests/cuda_driver.h"
#include "tests/small_steps.h"

namespace infer::cuda {
namespace {

using infer::test::cuda_driver;
using infer::test::small_steps;
using infer::test::TestGpu;

/// Two GPUs, of which NVIDIA's library knows the first, in a test case.
class Told {
 public:
  Told() {
    cuda_driver().set_gpus({{.pci_bus = 1}, {.pci_bus = 9}});
    infer::test::restart_cuda_driver();
    use_telemetry({"/nothing", INFER_FAKE_NVML});
  }
  ~Told() {
    cuda_driver().set_gpus({TestGpu()});
    infer::test::restart_cuda_driver();
    use_telemetry({"/nothing", ""});
  }
};

TEST_CASE("the list of devices has what their GPUs tell") {
  const Told told;
  const std::vector<DeviceDescription> all = devices("cuda");
  REQUIRE(all.size() == 2);
  CHECK(all[0].pci == "0000:01:00.0");
  REQUIRE(all[0].telemetry.has_value());
  CHECK(all[0].telemetry->device == "cuda:0");
  CHECK(*all[0].telemetry->celsius == 61);
  // Of 8 GiB that the driver says there are, 4 of the 24 that NVML knows are free.
  CHECK(all[0].memory_free == int64_t{4} << 30);
  CHECK(all[1].memory_free == all[1].memory_total);
  CHECK(all[1].pci == "0000:09:00.0");
  CHECK(!all[1].telemetry);
  infer_device_list* list = nullptr;
  REQUIRE(infer_device_list_create(&list) == INFER_OK);
  size_t seen = 0;
  for (size_t i = 0; i < infer_device_list_size(list); ++i) {
    const infer_device* device = infer_device_list_get(list, i);
    if (std::string(device->name) != "cuda:0") {
      CHECK(device->gpu == nullptr);
      continue;
    }
    REQUIRE(device->gpu != nullptr);
    CHECK(std::string(device->gpu->pci) == "0000:01:00.0");
    CHECK(std::string(device->gpu->throttled) == "power limit, too hot");
    CHECK(device->gpu->watts_limit == doctest::Approx(450));
    CHECK(device->gpu->memory_used == int64_t{20} << 30);
    ++seen;
  }
  CHECK(seen == 1);
  infer_device_list_free(list);
}

TEST_CASE("an engine's statistics have what its GPU tells") {
  const Told told;
  const auto engine =
      Engine::Impl::open(infer::test::small_model(), small_steps("cuda:0"), open_device).value();
  const EngineStatistics statistics = engine->statistics();
  REQUIRE(statistics.gpus.size() == 1);
  CHECK(statistics.gpus[0].device == "cuda:0");
  CHECK(*statistics.gpus[0].busy == doctest::Approx(0.42));
  const auto of_other =
      Engine::Impl::open(infer::test::small_model(), small_steps("cuda:1"), open_device).value();
  CHECK(of_other->statistics().gpus.empty());
  const auto of_cpu =
      Engine::Impl::open(infer::test::small_model(), small_steps("cpu"), open_device).value();
  CHECK(of_cpu->statistics().gpus.empty());
}

TEST_CASE("statistics go on without what failed") {
  const Told told;
  setenv("FAKE_NVML", "lost", 1);
  use_telemetry({"/nothing", INFER_FAKE_NVML});
  const auto engine =
      Engine::Impl::open(infer::test::small_model(), small_steps("cuda:0"), open_device).value();
  const EngineStatistics statistics = engine->statistics();
  unsetenv("FAKE_NVML");
  REQUIRE(statistics.gpus.size() == 1);
  CHECK(!statistics.gpus[0].busy);
  CHECK(!statistics.gpus[0].watts);
}

}  // namespace
}  // namespace infer::cuda
