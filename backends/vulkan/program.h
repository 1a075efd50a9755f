// A compiled segment: a command buffer that is recorded once and submitted for every step. What
// changes from step to step (counts, tokens, slots, tables, where pages lie) is written to memory
// that the host shares with the device before each submission.
#pragma once

#include <memory>

#include "backends/vulkan/memory.h"
#include "backends/vulkan/op.h"

namespace infer::vulkan {

/// Bytes of work space that a segment's program needs, for one node at a time.
int64_t scratch_bytes(const Segment& segment, const Target& target);

/// What `target` refers to outlives the program. `tables`: tables.h. device, out_of_memory or
/// unsupported on failure.
Result<std::unique_ptr<Program>> compile_program(Context& context, Pipelines& pipelines,
                                                 const Target& target, VkDeviceAddress tables,
                                                 const CompileSpec& spec);

}  // namespace infer::vulkan
