// Steps of a model without an engine around them: on devices that play what this machine has not.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "engine/exec/executor.h"
#include "engine/kv/kv_cache.h"
#include "engine/model/open_weights.h"
#include "tests/support.h"

namespace infer::test {

/// One of tests/data/golden.
struct StepModel {
  std::unique_ptr<WeightSource> source;
  std::unique_ptr<Model> model;
  std::unique_ptr<WeightTable> weights;

  explicit StepModel(const std::string& name)
      : source(open_weights(data_path("golden/" + name + ".gguf")).value()),
        model(read_model(*source).value()),
        weights(std::make_unique<WeightTable>(*source)) {}

  Result<MemoryPlan> plan(std::span<Device* const> devices, const PlanRequest& request) const {
    return plan_memory(*model, *weights, devices, request);
  }
};

/// Logits of tokens 1, 2, … `count` (after 64 again from 1), `rows` in a
/// step: of the last ones of each step as far as it gives results.
inline std::vector<float> step_logits(const StepModel& opened, std::span<Device* const> devices,
                                      const PlanRequest& request, const MemoryPlan& plan,
                                      int32_t count, int32_t rows) {
  const auto executor =
      Executor::create(*opened.model, *opened.weights, devices, request, plan, {}).value();
  const auto cache =
      KvCache::create(devices, plan.kv_layout, plan.kv_pages, {plan.context}).value();
  const KvCache::SequenceId id = cache->add_sequence();
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t i = 0; i < count; ++i) tokens[static_cast<size_t>(i)] = i % 64 + 1;
  std::vector<float> all;
  for (int32_t first = 0; first < count; first += rows) {
    const int32_t taken = std::min(rows, count - first);
    if (!cache->reserve(id, taken).ok()) return {};
    StepBatch batch;
    batch.begin_sequence(std::span(tokens).first(static_cast<size_t>(first)));
    batch.tokens.assign(tokens.begin() + first, tokens.begin() + first + taken);
    batch.slots.resize(batch.tokens.size());
    std::iota(batch.slots.begin(), batch.slots.end(), first);
    batch.positions.assign(batch.slots.begin(), batch.slots.end());
    batch.sequences.assign(batch.tokens.size(), 0);
    const auto outputs = std::min<int64_t>(taken, request.max_outputs);
    batch.output_rows.resize(static_cast<size_t>(outputs));
    std::iota(batch.output_rows.begin(), batch.output_rows.end(),
              taken - static_cast<int32_t>(outputs));
    batch.pages = cache->pages({&id, 1});
    const auto found = executor->run(batch).value();
    all.insert(all.end(), found.begin(), found.end());
    cache->commit(id, tokens, taken);
  }
  return all;
}

}  // namespace infer::test
