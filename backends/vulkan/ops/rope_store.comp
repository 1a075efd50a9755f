#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#include "backends/vulkan/glsl/rope.glsl"

// Queries rotated, keys rotated and put into the cache, values put there: heads one after another
// along y. An element an invocation, or of what is stored in blocks one of them.
layout(local_size_x = 64) in;
layout(constant_id = 1) const uint kValueType = 0;
layout(constant_id = 2) const uint style = 0;
layout(constant_id = 3) const uint pairs = 1;
layout(constant_id = 4) const uint query_heads = 1;
layout(constant_id = 5) const uint kv_heads = 1;
layout(constant_id = 6) const uint k_dim = 1;
layout(constant_id = 7) const uint v_dim = 1;
layout(constant_id = 8) const uint k_row = 1;  // bytes
layout(constant_id = 9) const uint v_row = 1;
layout(constant_id = 10) const uint across = 0;  // keys lie so

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
  if (head < query_heads) {
    if (i >= k_dim) return;
    y.v[at(y_strides, head, r) + i] =
        roped(style, q, at(q_strides, head, r), i, pairs, table, table_strides, r);
    return;
  }
  head -= query_heads;
  const bool values = head >= kv_heads;
  if (values) head -= kv_heads;
  const uint block = cache_block(values ? kValueType : kCacheType);
  if (i * block >= (values ? v_dim : k_dim)) return;
  const uint slot = uint(slots.v[r]);
  const uint64_t page = page_of(step.kinds[kind], uint(sequences.v[r]), slot);
  const uint token = slot % kPageTokens;
  float x[32];
  if (values) {
    const uint from = at(v_strides, head, r) + i * block;
    [[unroll]] for (uint j = 0; j < 32; ++j) x[j] = j < block ? v.v[from + j] : 0.0;
    store_unit(kValueType, x, page + v_offset + (head * kPageTokens + token) * v_row, i);
    return;
  }
  const uint from = at(k_strides, head, r);
  const uint written = cache_block(kCacheType);
  [[unroll]] for (uint j = 0; j < 32; ++j) {
    x[j] = j < written ? roped(style, k, from, i * block + j, pairs, table, table_strides, r) : 0.0;
  }
  if (across != 0) {
    store_unit(kCacheType, x, page + k_offset + head * kPageTokens * k_row, i * kPageTokens + token);
  } else {
    store_unit(kCacheType, x, page + k_offset + (head * kPageTokens + token) * k_row, i);
  }
}
