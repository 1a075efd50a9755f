// Places the intermediate values of a step in memory: from lifetimes to offsets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/device.h"
#include "engine/graph/graph.h"

namespace infer {

struct ArenaPlan {
  std::vector<int64_t> offsets;  ///< by ValueId; −1 for a value without a place
  int64_t bytes = 0;
};

/// The nodes of one device, if several devices share a graph.
struct NodesOfDevice {
  int32_t device = 0;
  std::span<const int32_t> devices;  ///< by node; empty: all nodes are this device's
  /// By node: the first phase of its segment. Values of other devices are copied in before it.
  std::span<const int32_t> begins;
};

/// Places the results of the graph (only those that the device makes or reads) so that values alive
/// at the same time do not overlap. A value lives from the phase that makes it (Device::phases) to
/// the last phase that reads it or a view of it; an output of the graph lives to the end. A result
/// that is not stored has no place. The largest values are placed first, each at the lowest offset
/// that is free during its lifetime (Pisarchyk & Lee 2020). `alignment`: bytes, a power of two.
ArenaPlan plan_arena(const Graph& graph, std::span<const NodePhase> phases, int64_t alignment,
                     const NodesOfDevice& nodes = {});

}  // namespace infer
