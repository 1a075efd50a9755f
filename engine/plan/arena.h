// Where the intermediate values of a step lie: lifetimes to offsets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/device.h"
#include "engine/graph/graph.h"

namespace infer {

struct ArenaPlan {
  std::vector<int64_t> offsets;  ///< by ValueId; −1 for what is not a result
  int64_t bytes = 0;
};

/// Which nodes a device computes, where several share a graph.
struct NodesOfDevice {
  int32_t device = 0;
  std::span<const int32_t> devices;  ///< by node; none: all are this device's
  /// By node: the first phase of the stretch of one device's nodes that it is in. What another
  /// device made is there from then on.
  std::span<const int32_t> begins;
};

/// Places every result of the graph, or those that a device makes or reads, so that values alive at
/// the same time do not overlap: a value lives from the phase (Device::phases) that makes it to the
/// last that reads it (or a view of it), an output of the graph to the end; what is not stored has
/// no place. Largest first, each at the lowest offset free over its lifetime (Pisarchyk & Lee
/// 2020). `alignment` in bytes, a power of two.
ArenaPlan plan_arena(const Graph& graph, std::span<const NodePhase> phases, int64_t alignment,
                     const NodesOfDevice& nodes = {});

}  // namespace infer
