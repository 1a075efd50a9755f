// Which nodes of a graph become one call, each of which is one dispatch or, of some operations, a
// few; and which calls may run at once.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/vulkan/op.h"
#include "engine/backend/fusion.h"

namespace infer::vulkan {

/// The calls of a segment's nodes, in order, covering each node once. Nodes of different units are
/// not put into one call. Nothing is fused unless the tuning says so.
std::vector<FusedCall> plan_calls(const Segment& segment, const Target& target);

/// The nodes whose values a call reads and makes, by index: those it covers, and a norm that it
/// computes anew.
std::vector<int32_t> computed_nodes(const FusedCall& call);

/// For each node of the segment the phase that it is computed in: one begins where a call reads
/// what another of the running phase makes. Between phases there is a barrier, within one there is
/// none.
std::vector<NodePhase> plan_phases(const Segment& segment, const Target& target);

}  // namespace infer::vulkan
