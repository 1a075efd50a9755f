// How much a program computes, and how its calls are shared out among submissions. Drivers reset a
// device on which one submission takes seconds.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/vulkan/op.h"
#include "engine/backend/device.h"
#include "engine/backend/fusion.h"

namespace infer::vulkan {

/// The work of a call, as Tuning::submission counts it, if rows see up to `context` tokens. Of
/// experts all are counted as used.
double work_of(const Segment& segment, const FusedCall& call, const Target& target,
               int64_t context);

/// The tokens that a step is counted with: a power of two, so that few lengths differ.
int64_t counted_context(int64_t context, const Tuning& tuning);

/// By call, given its work: 0: it goes on in the submission of the call before. Else it begins a
/// submission, and its rows are shared out among so many.
std::vector<int64_t> submissions_of(std::span<const double> work, double most);

}  // namespace infer::vulkan
