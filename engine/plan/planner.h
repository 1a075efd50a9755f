// Memory known before it is used: pure functions that return bytes and allocate nothing. What is
// planned here is what engine/exec and engine/kv then allocate.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/backend/device.h"
#include "engine/model/arch.h"
#include "engine/model/builder.h"

namespace infer {

/// How large steps and the cache are to be.
struct PlanRequest {
  int64_t context = 0;  ///< tokens; 0: chosen
  DType k_type = DType::f16;
  DType v_type = DType::f16;
  int64_t max_rows = 512;       ///< tokens a step
  int64_t max_outputs = 16;     ///< rows a step returns logits for
  int64_t memory_limit = 0;     ///< bytes; 0: what the device has free
  bool weights_mapped = false;  ///< weights stay in the file's pages
};

struct MemoryPlan {
  int64_t context = 0;  ///< tokens
  int64_t pages = 0;
  int64_t page_bytes = 0;
  int64_t bytes[kPurposeCount] = {};
  int64_t available = 0;  ///< what it was measured against
  /// By index of the source's weights: offset in the weights' buffer, −1 if the graph does not use
  /// it.
  std::vector<int64_t> weight_offsets;

  int64_t total() const;
};

/// The graph of one step with these rows and outputs.
Result<Graph> build_graph(const Model& model, const WeightTable& weights, int64_t rows,
                          int64_t outputs, DType k_type, DType v_type);

/// Plans one device. bad_file or unsupported if the model cannot be built or a node not be run
/// (with the reason); does_not_fit says whether weights or context are too large and what would
/// fit.
Result<MemoryPlan> plan_memory(const Model& model, const WeightTable& weights, const Device& device,
                               const PlanRequest& request);

/// The smallest power of two that holds `rows`, at most `max_rows`: programs are kept per bucket.
int64_t row_bucket(int64_t rows, int64_t max_rows);

/// "3.21 GiB": for messages.
std::string format_bytes(int64_t bytes);

}  // namespace infer
