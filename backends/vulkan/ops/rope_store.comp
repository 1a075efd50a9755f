#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#include "backends/vulkan/glsl/rope.glsl"

// Queries rotated, keys rotated and put into the cache, values put there: heads one after another
// along y. An element an invocation, or of what is stored in blocks one of them.
layout(local_size_x = 64) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/rope_store.def"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 q, k, v, table, y;
  I32 slots, sequences;
  Strides q_strides, k_strides, v_strides, y_strides, table_strides;
  uint kind;
  uint k_offset, v_offset;
};

void main() {
  const uint i = gl_GlobalInvocationID.x;
  const uint r = gl_WorkGroupID.z;
  uint head = gl_WorkGroupID.y;
  if (r >= step.rows[0]) return;
  if (head < kQueryHeads) {
    if (i >= kKeyDim) return;
    y.v[at(y_strides, head, r) + i] =
        roped(kStyle, q, at(q_strides, head, r), i, kPairs, table, table_strides, r);
    return;
  }
  head -= kQueryHeads;
  const bool values = head >= kKvHeads;
  if (values) head -= kKvHeads;
  const uint block = cache_block(values ? kValueType : kKeyType);
  if (i * block >= (values ? kValueDim : kKeyDim)) return;
  const uint slot = uint(slots.v[r]);
  const uint64_t page = page_of(step.kinds[kind], uint(sequences.v[r]), slot);
  const uint token = slot % kPageTokens;
  float x[32];
  if (values) {
    const uint from = at(v_strides, head, r) + i * block;
    [[unroll]] for (uint j = 0; j < 32; ++j) x[j] = j < block ? v.v[from + j] : 0.0;
    store_unit(kValueType, x, page + v_offset + (head * kPageTokens + token) * kValueRow, i);
    return;
  }
  const uint from = at(k_strides, head, r);
  const uint written = cache_block(kKeyType);
  [[unroll]] for (uint j = 0; j < 32; ++j) {
    x[j] = j < written ? roped(kStyle, k, from, i * block + j, kPairs, table, table_strides, r) : 0.0;
  }
  if (kAcross != 0) {
    store_unit(kKeyType, x, page + k_offset + head * kPageTokens * kKeyRow, i * kPageTokens + token);
  } else {
    store_unit(kKeyType, x, page + k_offset + (head * kPageTokens + token) * kKeyRow, i);
  }
}
