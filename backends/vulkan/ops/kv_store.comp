#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"

layout(local_size_x = 64) in;

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
};

// An element an invocation, or a block of a quantised type.
void main() {
  const uint i = gl_GlobalInvocationID.x;
  const uint head = gl_WorkGroupID.y;
  const uint r = gl_WorkGroupID.z;
  if (r >= step.rows[0] || i * cache_block() >= dim) return;
  const uint slot = uint(slots.v[r]);
  const uint64_t page = page_of(step.kinds[kind], uint(sequences.v[r]), slot) + offset;
  const uint from = at(x_strides, head, r) + i * cache_block();
  const uint64_t row = page + uint64_t((head * kPageTokens + slot % kPageTokens) * stride);
  if (kCacheType == kQ8_0) {
    store_q8_0(x, from, row + i * 34);
  } else if (kCacheType == kQ4_0) {
    store_q4_0(x, from, row + i * 18);
  } else if (element == 0) {
    store_element(x.v[from], row, i);
  } else {
    store_element(x.v[from], page + uint64_t(head * kPageTokens * stride),
                  i * kPageTokens + slot % kPageTokens);
  }
}
