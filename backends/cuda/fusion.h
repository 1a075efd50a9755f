// Which nodes of a graph become one call, and which calls may run at once. A call is one launch, or
// a few for some operations.
#pragma once

#include <vector>

#include "backends/cuda/op.h"
#include "engine/backend/device.h"
#include "engine/backend/fusion.h"

namespace infer::cuda {

/// The calls of a segment's nodes, in order, covering each node once. Nodes of different units are
/// not put into one call. Nothing is fused unless the tuning says so and the operations take it.
std::vector<FusedCall> plan_calls(const Segment& segment, const Target& target);

/// The phase of each node of the segment. A new phase begins where a call reads what another call
/// of the current phase makes.
std::vector<NodePhase> plan_phases(const Segment& segment, const Target& target);

/// Bytes of work space of a segment's program. Its nodes use the same bytes one after another.
int64_t scratch_bytes(const Segment& segment, const Target& target);

}  // namespace infer::cuda
