// A compiled segment: a command buffer that is recorded once and submitted for every step. What
// changes from step to step (counts, tokens, slots, tables, where pages lie) is written to memory
// that the host shares with the device before each submission.
#pragma once

#include <memory>

#include "backends/vulkan/memory.h"
#include "backends/vulkan/op.h"

namespace infer::vulkan {

/// Bytes of work space of a segment's program. Its nodes use the same bytes one after another.
int64_t scratch_bytes(const Segment& segment, const Target& target);

/// What `target` refers to outlives the program. `tables`: gpu/tables.h. Errors: device,
/// out_of_memory, unsupported.
Result<std::unique_ptr<Program>> compile_program(Context& context, Pipelines& pipelines,
                                                 const Target& target, VkDeviceAddress tables,
                                                 const CompileSpec& spec);

}  // namespace infer::vulkan
