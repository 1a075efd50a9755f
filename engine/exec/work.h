// The work of a step, computed from its graph: bytes to read and multiply-accumulates. Measured
// times are compared with it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"

namespace infer {

/// Rows of one sequence in a step: the tokens at slots [first, first + count).
struct RowRange {
  int64_t first = 0;
  int64_t count = 1;
};

/// The properties of a step's rows that its work depends on.
struct StepShape {
  std::vector<RowRange> parts;  ///< one per sequence
  int64_t outputs = 0;

  int64_t rows() const;
};

/// Least bytes and multiply-accumulates (MACs) that are necessary. Some are expected values (see
/// node_work), therefore double.
struct Work {
  double weight_bytes = 0;      ///< weights, each read once per step
  double cache_bytes = 0;       ///< keys and values, each read once per step
  double activation_bytes = 0;  ///< intermediate values, inputs and cache entries read and written
  double weight_macs = 0;
  double attention_macs = 0;

  double bytes() const { return weight_bytes + cache_bytes + activation_bytes; }
  double macs() const { return weight_macs + attention_macs; }
  Work& operator+=(const Work& other);
};

/// The work of one node. Keys beyond the window of an attention are not read. Values that share the
/// bytes of their keys are read with them. Of E experts, the number read is that expected if every
/// row chooses at random: E·(1 − (1 − used/E)^rows).
Work node_work(const Graph& graph, const Node& node, const StepShape& step);

/// The sum over all nodes.
Work step_work(const Graph& graph, const StepShape& step);

}  // namespace infer
