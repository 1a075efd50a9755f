// Which nodes of a graph become one call, and which calls may run at once. A call is one dispatch,
// or a few for some operations.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/vulkan/op.h"
#include "engine/backend/fusion.h"

namespace infer::vulkan {

/// The calls of a segment's nodes, in order, covering each node once. Nodes of different units are
/// not put into one call. Nothing is fused unless the tuning says so.
std::vector<FusedCall> plan_calls(const Segment& segment, const Target& target);

/// The phase of each node of the segment. A new phase begins where a call reads what another call
/// of the current phase makes. There is a barrier between two phases, and none within a phase.
std::vector<NodePhase> plan_phases(const Segment& segment, const Target& target);

}  // namespace infer::vulkan
