// RoPE of queries and keys and storing keys and values, in one dispatch.
#pragma once

#include "backends/gpu/calls.h"
#include "backends/vulkan/op.h"

namespace infer::vulkan {

using gpu::RopeStoreCall;
void record_rope_store(const NodeCall& call, const RopeStoreCall& in);

}  // namespace infer::vulkan
