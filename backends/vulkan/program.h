// A compiled segment: a command buffer that is recorded once and submitted for every step. What
// changes from step to step (counts, tokens, slots, tables, where pages lie) is written to memory
// that the host shares with the device before each submission.
#pragma once

#include <memory>
#include <vector>

#include "backends/vulkan/memory.h"
#include "backends/vulkan/op.h"

namespace infer::vulkan {

/// For each node the phase that it is computed in: one begins where a node reads what another of
/// the running phase makes. Between phases there is a barrier, within one there is none.
std::vector<NodePhase> plan_phases(const Segment& segment);

/// `tables`: tables.h. device, out_of_memory or unsupported on failure.
Result<std::unique_ptr<Program>> compile_program(Context& context, Pipelines& pipelines,
                                                 VkDeviceAddress tables, const CompileSpec& spec);

}  // namespace infer::vulkan
