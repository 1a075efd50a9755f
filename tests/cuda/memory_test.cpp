// Memory of GPUs: plans against what the driver counts, the heap, and a cache that grows and
// shrinks.
#include <doctest.h>

#include <cstring>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "engine/plan/planner.h"
#include "engine/session/engine_impl.h"
#include "tests/cuda/gpus.h"
#include "tests/cuda/shape_source.h"
#include "tests/small_steps.h"

namespace infer::cuda {
namespace {

using infer::test::cuda_driver;
using infer::test::Gpus;
using infer::test::kPrompt;
using infer::test::small_model;
using infer::test::small_steps;

constexpr int64_t kMib = int64_t{1} << 20;
constexpr int64_t kGib = int64_t{1} << 30;
constexpr int64_t kGranule = 2 * kMib;

std::vector<int32_t> generated(Engine& engine) {
  const auto session = engine.open_session().value();
  GenerateOptions options;
  options.max_tokens = 4;
  options.ignore_end = true;
  options.sampling.temperature = 0;
  std::vector<int32_t> tokens;
  const auto made = session->generate(kPrompt, options, [&](int32_t token, std::string_view) {
    tokens.push_back(token);
    return true;
  });
  REQUIRE_MESSAGE(made.has_value(), made.error().message());
  return tokens;
}

TEST_CASE("memory: a plan is what the driver counts, to the byte") {
  for (const bool virtual_memory : {true, false}) {
    INFO("virtual memory " << virtual_memory);
    const Gpus gpus({{.memory = 256 * kMib, .virtual_memory = virtual_memory}});
    LoadOptions load = small_steps("cuda:0");
    auto opened = OpenedModels::open(small_model(), load, false, open_device);
    REQUIRE_MESSAGE(opened.has_value(), opened.error().message());
    const DevicePlan plan = opened->main.plan.devices.at(1);
    CHECK(plan.of(Purpose::weights) > 0);
    CHECK(plan.of(Purpose::process) > 0);
    // Context, kernels and the device's own buffers are there: what follows is the plan's.
    const int64_t before = cuda_driver().free_bytes(0);
    const auto engine =
        Engine::Impl::wrap(Engine::Impl::load(small_model(), *std::move(opened), load).value());
    generated(*engine);  // compiles the programs of all steps
    const int64_t taken = before - cuda_driver().free_bytes(0);
    CHECK(taken % kGranule == 0);
    if (virtual_memory) {
      CHECK(taken == plan.total());
    } else {
      // Small parts share blocks that are there already.
      CHECK(taken <= plan.total());
      CHECK(taken + 2 * kGranule >= plan.total());
    }
    CHECK(engine->memory().devices[1].other == plan.of(Purpose::process));
  }
  CHECK(cuda_driver().live() == 0);
}

TEST_CASE("memory: kernels are loaded before anything is planned") {
  const Gpus gpus({{.memory = 256 * kMib, .virtual_memory = true}});
  const auto device = CudaDevice::open(0, false).value();
  const int64_t opened = device->info().memory_free;
  const DType types[] = {DType::q4_0, DType::f32};
  REQUIRE(device->prepare(types).ok());
  const int64_t prepared = device->info().memory_free;
  CHECK(prepared < opened);
  REQUIRE(device->prepare(types).ok());
  CHECK(device->info().memory_free == prepared);
  const DType more[] = {DType::q6_k};
  REQUIRE(device->prepare(more).ok());
  CHECK(device->info().memory_free <= prepared);
}

TEST_CASE("memory: plans for GPUs of 4, 8, 24 and 80 GiB") {
  const infer::test::ShapeSource source("llama-3.1-8b", "q4_k_m");
  const auto model = read_model(source).value();
  const WeightTable weights(source);
  int64_t layers_before = -1;
  for (const int64_t gib : {4, 8, 24, 80}) {
    INFO(gib << " GiB");
    const Gpus gpus({{.memory = gib * kGib,
                      .used_by_others = 300 * kMib,
                      .virtual_memory = true,
                      .context_bytes = 400 * kMib}});
    const auto cpu = open_device("cpu", {.threads = 1}).value();
    const auto gpu = open_device("cuda:0", {}).value();
    const int64_t free = gpu->info().memory_free;
    CHECK(free > gib * kGib - 720 * kMib);
    CHECK(free <= gib * kGib - 700 * kMib);
    Device* const devices[] = {cpu.get(), gpu.get()};
    PlanRequest request;
    request.context = 4096;
    const auto plan = plan_memory(*model, weights, devices, request);
    if (!plan) {
      // The rest has to fit beside other work of this machine.
      CHECK(plan.error().code() == StatusCode::does_not_fit);
      CHECK(plan.error().message().find("cpu") != std::string::npos);
      continue;
    }
    const DevicePlan& own = plan->devices[1];
    CHECK(own.total() % kGranule == 0);
    CHECK(own.total() <= free - default_reserve(free));
    CHECK(plan->placement.offloaded() > layers_before);
    CHECK((plan->placement.offloaded() == 33) == (gib >= 8));
    if (gib < 8) {
      layers_before = plan->placement.offloaded();
      // One layer more would not have fitted.
      const int64_t layer = own.of(Purpose::weights) / layers_before;
      CHECK(own.total() + 2 * layer > free - default_reserve(free));
    }
  }
}

TEST_CASE("memory: limit and reserve hold for each GPU") {
  const infer::test::ShapeSource source("llama-3.1-8b", "q4_k_m");
  const auto model = read_model(source).value();
  const WeightTable weights(source);
  const Gpus gpus({{.memory = 8 * kGib, .virtual_memory = true},
                   {.memory = 24 * kGib, .used_by_others = 18 * kGib, .virtual_memory = true}});
  const auto cpu = open_device("cpu", {.threads = 1}).value();
  const auto first = open_device("cuda:0", {}).value();
  const auto second = open_device("cuda:1", {}).value();
  Device* const devices[] = {cpu.get(), first.get(), second.get()};
  PlanRequest request;
  request.context = 1024;
  request.memory_limit = 5 * kGib / 2;
  const auto limited = plan_memory(*model, weights, devices, request);
  REQUIRE_MESSAGE(limited.has_value(), limited.error().message());
  for (const size_t d : {size_t{1}, size_t{2}}) {
    CHECK(limited->devices[d].total() <= 5 * kGib / 2);
    CHECK(limited->devices[d].of(Purpose::weights) > kGib);
  }
  request.memory_limit = 0;
  request.reserve = 4 * kGib;
  const auto reserved = plan_memory(*model, weights, devices, request);
  REQUIRE_MESSAGE(reserved.has_value(), reserved.error().message());
  CHECK(reserved->devices[1].total() <= first->info().memory_free - 4 * kGib);
  CHECK(reserved->devices[2].total() <= second->info().memory_free - 4 * kGib);
}

TEST_CASE("memory: the cache grows and shrinks, and nothing changes") {
  const std::vector<int32_t> expected =
      infer::test::generate(small_steps("cpu"), open_device).value();
  const Gpus gpus({{.memory = 256 * kMib, .virtual_memory = true}});
  LoadOptions load = small_steps("cuda:0");
  load.context = 65536;
  load.parallel = 4;
  const auto engine = Engine::Impl::open(small_model(), load, open_device).value();
  CHECK(generated(*engine) == expected);
  const MemoryReport planned = engine->memory();
  const int64_t free = cuda_driver().free_bytes(0);
  CHECK(planned.kv >= 4 * kGranule);
  REQUIRE(engine->resize_cache(planned.kv / 4).ok());
  CHECK(engine->memory().kv <= planned.kv / 4);
  CHECK(cuda_driver().free_bytes(0) >= free + planned.kv / 2);
  CHECK(generated(*engine) == expected);
  REQUIRE(engine->resize_cache(planned.kv).ok());
  CHECK(engine->memory().kv == planned.kv);
  CHECK(cuda_driver().free_bytes(0) >= free - kGranule);
  CHECK(generated(*engine) == expected);
}

TEST_CASE("memory: a heap of virtual memory") {
  const Gpus gpus({{.memory = 64 * kMib, .virtual_memory = true}});
  const auto device = CudaDevice::open(0, false).value();
  const auto alloc = [&](int64_t bytes) { return device->alloc(bytes, Purpose::weights); };
  const auto held = [&] { return static_cast<CudaDevice&>(*device).heap().held(); };
  const int64_t empty = held();
  const int64_t sizes[] = {5 * kMib, 100, 3 * kMib};
  const int64_t predicted = device->taken_by(sizes);
  CHECK(predicted == 10 * kMib);
  auto a = alloc(sizes[0]).value();
  auto b = alloc(sizes[1]).value();
  auto c = alloc(sizes[2]).value();
  CHECK(held() == empty + predicted);
  // One range: what follows begins where the last one ended.
  CHECK(b->address() == a->address() + sizes[0]);
  CHECK(c->address() == b->address() + kAlignment);
  // Over the edge of what was mapped at a time.
  const std::vector<std::byte> data(static_cast<size_t>(sizes[2]), std::byte{42});
  REQUIRE(device->write(data, {c.get(), 0}).ok());
  std::vector<std::byte> back(data.size());
  REQUIRE(device->read({c.get(), 0}, back).ok());
  CHECK(back == data);
  c.reset();
  CHECK(held() == empty + 6 * kMib);
  // A gap is used again, and what does not fit leaves nothing behind.
  a.reset();
  a = alloc(4 * kMib).value();
  CHECK(a->address() + 5 * kMib == b->address());
  CHECK(held() == empty + 6 * kMib);
  CHECK(alloc(200 * kMib).error().code() == StatusCode::out_of_memory);
  CHECK(held() == empty + 6 * kMib);
  a.reset();
  b.reset();
  c.reset();
  CHECK(held() == empty);
  CHECK(device->allocated(Purpose::weights) == 0);
}

}  // namespace
}  // namespace infer::cuda
