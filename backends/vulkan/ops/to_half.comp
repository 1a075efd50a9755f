#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"
#extension GL_KHR_shader_subgroup_arithmetic : require

// Columns of activations as float16 for weights/matrix.comp, a workgroup a column. Each is multiplied
// with a power of two that brings its largest magnitude to between 2^14 and 2^15: none overflows and
// the small ones keep what bits there are. `back` undoes it. A column is followed by zeros. Each four
// neighbours have the order 0, 2, 1, 3, as the rows there.
layout(local_size_x_id = 0) in;

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x;
  U32 y;       // pairs [stride / 2, rows]
  F32 back;    // [rows]
  uint k;      // of a column
  uint stride; // in values, of y; even
  Strides x_strides;
};

shared uint largest_of[64];  // by subgroup

void main() {
  const uint column = step.rows[2] + gl_WorkGroupID.y;
  if (column >= step.rows[0]) return;
  const uint size = gl_WorkGroupSize.x;
  const uint from = at(x_strides, 0, column);
  uint largest = 0;
  for (uint i = gl_LocalInvocationIndex; i < k; i += size) {
    largest = max(largest, floatBitsToUint(x.v[from + i]) & 0x7fffffffu);
  }
  largest = subgroupMax(largest);
  if (subgroupElect()) largest_of[gl_SubgroupID] = largest;
  barrier();
  for (uint s = 0; s < gl_NumSubgroups; ++s) largest = max(largest, largest_of[s]);
  // Infinities and NaNs stay what they are; zeros and the least numbers get what a factor can give.
  const int raise = clamp(14 - (int(largest >> 23) - 127), -113, 126);
  const float factor = intBitsToFloat((127 + raise) << 23);
  for (uint i = gl_LocalInvocationIndex; i < stride / 2; i += size) {
    const uint j = i / 2 * 4 + i % 2;
    const float first = j < k ? x.v[from + j] * factor : 0.0;
    const float second = j + 2 < k ? x.v[from + j + 2] * factor : 0.0;
    // packHalf2x16() may truncate.
    y.v[column * (stride / 2) + i] = f32_to_f16(first) | f32_to_f16(second) << 16;
  }
  if (gl_LocalInvocationIndex == 0) back.v[column] = intBitsToFloat((127 - raise) << 23);
}
