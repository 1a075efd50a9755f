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
  int64_t memory_limit = 0;     ///< bytes; 0: what the device has free, less the reserve
  bool pretend = false;         ///< the limit may exceed what is free
  int64_t reserve = -1;         ///< bytes of what is free to leave alone; −1: default_reserve()
  bool weights_mapped = false;  ///< weights stay in the file's pages
  bool spill = false;           ///< mapped weights of a layer are dropped once it has used them
  int64_t others = 0;           ///< bytes of the same memory that are planned for something else
  bool beside = false;          ///< the process itself is in another model's plan
  /// Every node is a program of its own, so that what it is given can be looked at before it runs:
  /// Executor::observe.
  bool observed = false;
};

/// Where a weight lies: in which of the weights' buffers, −1 if the graph does not use it.
struct WeightPlace {
  int32_t buffer = -1;
  int64_t offset = 0;
};

struct MemoryPlan {
  int64_t context = 0;  ///< tokens
  KvLayout kv_layout;
  std::vector<int32_t> kv_pages;  ///< by kind
  int64_t bytes[kPurposeCount] = {};
  int64_t available = 0;                   ///< what it was measured against
  int64_t reserve = 0;                     ///< of what is free, left alone
  std::vector<WeightPlace> weight_places;  ///< by index of the source's weights
  /// Bytes of each of the weights' buffers: as few as Device::largest_buffer() allows.
  std::vector<int64_t> weight_buffers;

  // What was chosen.
  int64_t max_rows = 0;
  int64_t max_outputs = 0;
  DType k_type = DType::f16;
  DType v_type = DType::f16;
  bool spilled = false;      ///< the weights' line is what of them is in memory at a time
  int64_t file_weights = 0;  ///< bytes of all weights as they lie in the file

  int64_t total() const;
};

/// What a device needs for a step's results and work space.
struct StepMemory {
  ArenaPlan arena;
  int64_t scratch = 0;
};
StepMemory plan_step(const Graph& graph, const Device& device, bool observed);

/// The graph of one step with these rows and outputs.
Result<Graph> build_graph(const Model& model, const WeightTable& weights, int64_t rows,
                          int64_t outputs, DType k_type, DType v_type);

/// A twentieth of what is free, at least 256 MiB, at most half: room for what else the machine
/// does.
int64_t default_reserve(int64_t memory_free);

/// Plans one device. Where not all fits, rows of a step are given up first (if allowed: nothing
/// that is computed depends on them), then the cache's types (if automatic). bad_file or
/// unsupported if the model cannot be built or a node not be run (with the reason); does_not_fit
/// says whether weights or context are too large and what would fit.
Result<MemoryPlan> plan_memory(const Model& model, const WeightTable& weights, const Device& device,
                               const PlanRequest& request);

/// The smallest power of two that holds `rows`, at most `max_rows`: programs are kept per bucket.
int64_t row_bucket(int64_t rows, int64_t max_rows);

/// "3.21 GiB": for messages.
std::string format_bytes(int64_t bytes);

}  // namespace infer
