// Memory known before it is used: pure functions that return bytes and allocate nothing. What is
// planned here is what engine/exec and engine/kv then allocate.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/backend/device.h"
#include "engine/model/arch.h"
#include "engine/model/builder.h"
#include "engine/plan/arena.h"
#include "engine/plan/budget.h"
#include "engine/plan/format_bytes.h"
#include "engine/plan/placement.h"
#include "engine/plan/weights_plan.h"

namespace infer {

/// How large steps and the cache are to be.
struct PlanRequest {
  int64_t context = 0;  ///< tokens; 0: chosen
  DType k_type = DType::f16;
  DType v_type = DType::f16;
  bool k_auto = false;  ///< q8_0 instead where a context asked for fits only so
  bool v_auto = false;
  int64_t max_rows = 512;       ///< tokens a step
  bool fewer_rows = false;      ///< instead, where that many do not fit
  int64_t max_outputs = 16;     ///< rows a step returns logits for
  int64_t sequences = 4;        ///< at once, each with windows of its own
  int64_t memory_limit = 0;     ///< bytes of each memory; 0: what it has free, less the reserve
  bool pretend = false;         ///< the limit may exceed what is free
  int64_t reserve = -1;         ///< bytes of what is free to leave alone; −1: default_reserve()
  bool weights_mapped = false;  ///< weights stay in the file's pages
  bool spill = false;           ///< mapped weights of a layer are dropped once it has used them
  std::vector<int64_t> others;  ///< by device: bytes planned for something else
  int64_t offload = -1;  ///< layers (and the output as one more) that are not on the first device
                         ///< of several, the last ones; −1: as many as fit
  bool beside = false;   ///< the process itself is in another model's plan
  /// On the host beside all that: what drafters keep, in all and for each token of the context, and
  /// what grammars may take.
  int64_t drafter_bytes = 0;
  int64_t drafter_token_bytes = 0;
  int64_t grammar_bytes = 0;
  /// Every node is a program of its own, so that what it is given can be looked at before it runs:
  /// Executor::observe.
  bool observed = false;
};

/// What a plan puts on one device.
struct DevicePlan {
  int64_t bytes[kPurposeCount] = {};
  int64_t drafters = 0;  ///< what they keep besides the model that drafts
  int64_t grammars = 0;
  std::vector<WeightPlace> weight_places;  ///< by index of the source's weights
  /// Bytes of each of the weights' buffers: as few as Device::largest_buffer() allows.
  std::vector<int64_t> weight_buffers;
  bool mapped = false;  ///< its weights stay in the file's pages: adopted

  int64_t total() const;
};

struct MemoryPlan {
  int64_t context = 0;            ///< tokens
  KvLayout kv_layout;             ///< kinds by device
  std::vector<int32_t> kv_pages;  ///< by kind
  Placement placement;
  std::vector<DevicePlan> devices;
  std::vector<MemoryBudget> budgets;  ///< the host's first

  // What was chosen.
  int64_t max_rows = 0;
  int64_t max_outputs = 0;
  DType k_type = DType::f16;
  DType v_type = DType::f16;
  bool spilled = false;      ///< the weights' line is what of them is in memory at a time
  int64_t file_weights = 0;  ///< bytes of all weights as they lie in the file

  // Sums over devices.
  int64_t bytes(Purpose purpose) const;
  int64_t total() const;
  int64_t drafters() const { return devices[0].drafters; }
  int64_t grammars() const { return devices[0].grammars; }
  int64_t available() const;
  /// Of the devices of a budget; of kv alone or all.
  int64_t used(const MemoryBudget& budget) const;
  int64_t used(const MemoryBudget& budget, Purpose purpose) const;
};

/// What devices need for a step's results and work space.
struct StepMemory {
  struct OfDevice {
    ArenaPlan arena;
    int64_t scratch = 0;
  };
  std::vector<OfDevice> devices;
};
StepMemory plan_step(const Graph& graph, std::span<const PlacedSegment> segments,
                     std::span<Device* const> devices);

/// The graph of one step with these rows and outputs. A layer's cache is where the layer is.
Result<Graph> build_graph(const Model& model, const WeightTable& weights, int64_t rows,
                          int64_t outputs, DType k_type, DType v_type,
                          const Placement& placement = {});

/// Plans one device, or several of which the first is the host's processor. Without a number of
/// layers for the others they get as many of the last ones as fit, together with their part of the
/// cache. Where not all fits, rows of a step are given up first (if allowed: nothing that is
/// computed depends on them), then the cache's types (if automatic). bad_file or unsupported if the
/// model cannot be built or the first device cannot run a node (with the reason); does_not_fit says
/// whether weights or context are too large and what would fit.
Result<MemoryPlan> plan_memory(const Model& model, const WeightTable& weights,
                               std::span<Device* const> devices, const PlanRequest& request);

/// The smallest power of two that holds `rows`, at most `max_rows`: programs are kept per bucket.
int64_t row_bucket(int64_t rows, int64_t max_rows);

}  // namespace infer
