#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 0) const uint kCacheType = 0;

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x;
  I32 slots, sequences;
  Strides x_strides;
  uint dim;      // elements of a key or value
  uint kind;     // of pages
  uint offset;   // of the layer in a page, in bytes
  uint stride;   // bytes of a key or value
  uint element;  // bytes of an element of what lies across, or 0
  uint tokens;   // slots of a block that has one key
};

// An element an invocation, or a block of a quantised type.
void main() {
  const uint block = cache_block(kCacheType);
  const uint i = gl_GlobalInvocationID.x;
  const uint head = gl_WorkGroupID.y;
  const uint r = gl_WorkGroupID.z;
  if (r >= step.rows[0] || i * block >= dim) return;
  const uint slot = uint(slots.v[r]);
  if ((slot + 1) % tokens != 0) return;
  const uint64_t page = page_of(step.kinds[kind], uint(sequences.v[r]), slot) + offset;
  const uint from = at(x_strides, head, r) + i * block;
  float values[32];
  [[unroll]] for (uint j = 0; j < 32; ++j) values[j] = j < block ? x.v[from + j] : 0.0;
  if (element == 0) {
    store_unit(kCacheType, values, page + (head * kPageTokens + slot % kPageTokens / tokens) * stride, i);
  } else {
    store_unit(kCacheType, values, page + head * kPageTokens * stride,
               i * kPageTokens + slot % kPageTokens);
  }
}
