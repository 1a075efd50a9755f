// How a graph's nodes become calls: which are fused into one, and where all threads must meet.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cpu/kernels.h"

namespace infer::cpu {

/// Nodes computed by one call, by index. Patterns of products:
///   [norm →] product(s) with the same activations [→ activation of two | → sum with a residual]
/// where what lies between is used by nothing else and never stored.
struct Phase {
  std::vector<int32_t> nodes;  ///< one, or products
  int32_t norm = -1;
  int32_t glu = -1;
  int32_t add = -1;
  bool barrier = false;  ///< all threads must have finished what came before

  /// The first and last node covered.
  int32_t first() const { return norm >= 0 ? norm : nodes.front(); }
  int32_t last() const { return add >= 0 ? add : glu >= 0 ? glu : nodes.back(); }
  /// Whether the results of a covered node are put into memory.
  bool stores(int32_t node) const {
    return node == last() || (last() == nodes.back() && node != norm);
  }
};

/// The phases of nodes [begin, end), in order, covering each node once.
std::vector<Phase> plan_phases(const Segment& segment, const CpuContext& context);

}  // namespace infer::cpu
