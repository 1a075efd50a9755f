// Which calls of a segment may run at once, and the memory that a call reads and writes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backends/gpu/calls.h"
#include "backends/gpu/hazards.h"
#include "engine/backend/device.h"

namespace infer::gpu {

/// The nodes that a call computes, by index: those that it covers, and a norm that it computes
/// again.
std::vector<int32_t> computed_nodes(const FusedCall& call);

using CacheUseOf = std::function<CacheUse(const Node&)>;

/// The phase of each node of the segment. A new phase begins where a call reads what another call
/// of the current phase makes.
std::vector<NodePhase> phases_of(const Segment& segment, std::span<const FusedCall> calls,
                                 const CacheUseOf& cache_use);

/// Memory that a call's nodes read and write; what one of them makes for another is neither.
struct Access {
  std::vector<Range> reads, writes;
};

/// What a program knows of its nodes.
struct AccessQueries {
  OperandOf operand;
  CacheUseOf cache_use;
  std::function<bool(const Node&)> uses_scratch;
};
/// `scratch`: the address of the program's work space, which nodes use one after another.
Access access_of(const Graph& graph, const FusedCall& call, const AccessQueries& ask,
                 uint64_t scratch);

}  // namespace infer::gpu
