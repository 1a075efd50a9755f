// Attention of few rows, which is split along the keys.
#pragma once

#include "backends/vulkan/op.h"

namespace infer::vulkan {

/// Bytes of work space for the parts of a segment's attention nodes, one node at a time.
int64_t attention_scratch_bytes(const Segment& segment, const Tuning& tuning);

}  // namespace infer::vulkan
