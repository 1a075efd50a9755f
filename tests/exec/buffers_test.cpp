// Weights on devices whose buffers are limited in size.
#include <doctest.h>

#include <algorithm>

#include "engine/exec/executor.h"
#include "engine/kv/kv_cache.h"
#include "engine/model/checkpoint.h"
#include "tests/support.h"
#include "tests/test_device.h"

namespace infer {
namespace {

struct Opened {
  std::unique_ptr<WeightSource> source;
  std::unique_ptr<Model> model;
  std::unique_ptr<WeightTable> weights;

  explicit Opened(const std::string& path)
      : source(open_weights(path).value()),
        model(create_model(*source).value()),
        weights(std::make_unique<WeightTable>(*source)) {}
};

const std::string kModel = test::data_path("golden/llama-q4_0.gguf");

PlanRequest small_steps() {
  PlanRequest request;
  request.context = 64;
  request.max_rows = 4;
  request.max_outputs = 4;
  return request;
}

Result<MemoryPlan> planned(const Opened& opened, Device& device) {
  Device* const devices[] = {&device};
  return plan_memory(*opened.model, *opened.weights, devices, small_steps());
}

/// Logits of four tokens.
std::vector<float> logits(const Opened& opened, Device& device, const MemoryPlan& plan) {
  Device* const devices[] = {&device};
  const auto executor =
      Executor::create(*opened.model, *opened.weights, devices, small_steps(), plan, {}).value();
  const auto cache =
      KvCache::create(devices, plan.kv_layout, plan.kv_pages, {plan.context}).value();
  const KvCache::SequenceId id = cache->add_sequence();
  REQUIRE(cache->reserve(id, 4).ok());
  StepBatch batch;
  for (int32_t i = 0; i < 4; ++i) {
    batch.tokens.push_back(i + 1);
    batch.positions.push_back(i);
    batch.slots.push_back(i);
    batch.sequences.push_back(0);
    batch.output_rows.push_back(i);
  }
  batch.pages = cache->pages({&id, 1});
  const auto found = executor->run(batch).value();
  return {found.begin(), found.end()};
}

TEST_CASE("weights that one buffer cannot hold lie in several, and compute the same") {
  const Opened opened(kModel);
  test::TestDevice device("small");
  const auto whole = planned(opened, device).value();
  REQUIRE(whole.devices[0].weight_buffers.size() == 1);
  const std::vector<float> expected = logits(opened, device, whole);

  device.largest = whole.devices[0].weight_buffers[0] / 3;
  const auto parts = planned(opened, device).value();
  CHECK(parts.devices[0].weight_buffers.size() >= 3);
  CHECK(parts.devices[0].weight_buffers.size() <= 6);
  int64_t sum = 0;
  for (const int64_t bytes : parts.devices[0].weight_buffers) {
    CHECK(bytes <= device.largest);
    sum += bytes;
  }
  CHECK(sum == parts.bytes(Purpose::weights));
  CHECK(sum == whole.devices[0].weight_buffers[0]);
  CHECK(logits(opened, device, parts) == expected);
}

TEST_CASE("a tensor that no buffer holds is named, with both sizes") {
  const Opened opened(kModel);
  test::TestDevice device("small");
  device.largest = 4096;
  const auto plan = planned(opened, device);
  REQUIRE(!plan.has_value());
  CHECK(plan.error().code() == StatusCode::does_not_fit);
  CHECK(plan.error().message().find("token_embd.weight") != std::string::npos);
  CHECK(plan.error().message().find("4.0 KiB") != std::string::npos);
}

}  // namespace
}  // namespace infer
