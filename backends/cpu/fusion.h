// Which nodes of a graph become one call on the CPU, and where all threads must meet.
#pragma once

#include <vector>

#include "backends/cpu/kernels.h"
#include "engine/backend/fusion.h"

namespace infer::cpu {

/// Nodes computed by one call.
struct Phase {
  FusedCall call;
  bool barrier = false;  ///< all threads must have finished what came before
};

/// The phases of a segment's nodes, in order, covering each node once.
std::vector<Phase> plan_phases(const Segment& segment, const CpuContext& context);

}  // namespace infer::cpu
