// What a step has to read and to multiply, from its graph alone: the figures that measured times
// are held against.
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

/// The rows of a step as far as its work depends on them.
struct StepShape {
  std::vector<RowRange> parts;  ///< one a sequence
  int64_t outputs = 0;

  int64_t rows() const;
};

/// Bytes and multiply-accumulates (MACs) that computing needs at least, in numbers of which a few
/// are expectations (see node_work), hence double.
struct Work {
  double weight_bytes = 0;      ///< weights read, each once a step
  double cache_bytes = 0;       ///< keys and values read, each once a step
  double activation_bytes = 0;  ///< intermediate values, inputs and cache entries read and written
  double weight_macs = 0;
  double attention_macs = 0;

  double bytes() const { return weight_bytes + cache_bytes + activation_bytes; }
  double macs() const { return weight_macs + attention_macs; }
  Work& operator+=(const Work& other);
};

/// The work of one node. Keys beyond an attention's window are not read; values that lie in their
/// keys' bytes are read with them. Of experts, as many are read as the rows meet on average when
/// every row chooses by chance: E·(1 − (1 − used/E)^rows) of E.
Work node_work(const Graph& graph, const Node& node, const StepShape& step);

/// The sum over all nodes.
Work step_work(const Graph& graph, const StepShape& step);

}  // namespace infer
