// How a graph's nodes become calls, each of which is one dispatch or, of some operations, a few;
// and which calls may run at once.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/vulkan/op.h"

namespace infer::vulkan {

/// Nodes computed by one call, by index:
///   product(s) of one type with the same activations [→ activation of two | → sum with a
///   residual]; with a single row [norm →] before them, which every call of its products computes
///   anew; rope of queries and of keys → store of the keys and values.
/// What lies between is used by nothing else and never stored. Nodes of different units do not
/// meet.
struct Call {
  std::vector<int32_t> nodes;  ///< products, the rope and the store, or one of any kind
  bool ropes = false;          ///< a rope of queries, one of keys, their store
  int32_t norm = -1;
  bool makes_norm = false;  ///< the first call of the norm: the node counts as its own
  int32_t glu = -1;
  int32_t add = -1;

  /// All nodes that are computed by this call alone, in their order.
  std::vector<int32_t> covered() const;
  /// Of them those whose results are put into memory.
  bool stores(int32_t node) const;
};

/// The calls of nodes [begin, end), in order, covering each node once.
std::vector<Call> plan_calls(const Segment& segment, const PhysicalDevice& device,
                             const Tuning& tuning);

/// The layer whose cache a node reads or writes; -1: none.
int32_t cache_layer(const Node& node);

/// For each node of the segment the phase that it is computed in: one begins where a call reads
/// what another of the running phase makes. Between phases there is a barrier, within one there is
/// none.
std::vector<NodePhase> plan_phases(const Segment& segment, const PhysicalDevice& device,
                                   const Tuning& tuning);

}  // namespace infer::vulkan
