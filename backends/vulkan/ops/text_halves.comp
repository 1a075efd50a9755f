#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/cache.glsl"

// Keys or values of texts as float16 for matrix_text_attention.comp, [padded, rows, heads]: an
// invocation has eight elements of a head. Elements from `dim` on are zeros. What is finite stays so.
layout(local_size_x = 64) in;

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x;
  U32 y;  // pairs
  Strides x_strides, y_strides;  // those of y in values
  uint dim, padded;
  uint rows;  // which of the step's rows these are
};

uint half_bits(float x) {
  return abs(x) < uintBitsToFloat(0x7f800000u) ? f32_to_f16_finite(x) : f32_to_f16(x);
}

void main() {
  const uint i = gl_GlobalInvocationID.x * 8 % padded;
  const uint row = gl_GlobalInvocationID.x * 8 / padded;
  if (row >= step.rows[rows]) return;
  const uint from = at(x_strides, gl_WorkGroupID.y, row) + i;
  const uint to = (at(y_strides, gl_WorkGroupID.y, row) + i) / 2;
  [[unroll]] for (uint w = 0; w < 4; ++w) {
    const uint e = 2 * w;
    const float low = i + e < dim ? x.v[from + e] : 0.0;
    const float high = i + e + 1 < dim ? x.v[from + e + 1] : 0.0;
    y.v[to + w] = half_bits(low) | half_bits(high) << 16;
  }
}
