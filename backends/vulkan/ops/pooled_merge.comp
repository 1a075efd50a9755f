#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#include "backends/vulkan/glsl/merge.glsl"

// The chunks of pooled_attention.comp, merged in their order: an invocation an element of a head.
layout(local_size_x = 64) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/pooled_attention.def"
#include "backends/vulkan/glsl/pooled.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 chunks;
  I32 slots;
  F32 sinks, y;
  Strides y_strides;
  uint window;
};

void main() {
  const uint d = gl_GlobalInvocationID.x;
  const uint head = gl_WorkGroupID.y;
  const uint r = gl_WorkGroupID.z;
  if (r >= step.rows[0] || d >= kValueDim) return;
  const uint pages = pages_of(pooled_seen(uint(slots.v[r]), window));
  const uint count = (pages + chunk_pages(pages) - 1) / chunk_pages(pages);
  const uint from = (r * gl_NumWorkGroups.y + head) * kChunks * (kValueDim + 2);
  const float most = kSinks != 0 ? sinks.v[head] : uintBitsToFloat(0xff800000u);
  y.v[at(y_strides, head, r) + d] =
      merged_chunks(chunks, from, count, kValueDim, d, most, kSinks != 0 ? 1.0 : 0.0);
}
