#version 460
#include "backends/vulkan/glsl/common.glsl"

// One workgroup a row of d0, in shared memory: log2(block) rounds of sums and differences.
layout(local_size_x = 64) in;
#include "backends/vulkan/glsl/constants.glsl"
#include "backends/vulkan/ops/hadamard.def"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, y;
  Shape shape;
  Strides x_strides;
  float factor;  // 1 / √block
};

shared float values[kWidth];

void main() {
  const uint i1 = gl_WorkGroupID.y;
  const uint i2 = gl_WorkGroupID.z;
  if (i2 >= step.rows[shape.rows]) return;
  const uint from = at(x_strides, i1, i2);
  const uint to = at(shape, i1, i2);
  for (uint i = gl_LocalInvocationID.x; i < kWidth; i += 64) values[i] = x.v[from + i];
  for (uint stride = 1; stride < kBlock; stride *= 2) {
    barrier();
    for (uint p = gl_LocalInvocationID.x; p < kWidth / 2; p += 64) {
      const uint i = p / stride * 2 * stride + p % stride;
      const float a = values[i];
      const float b = values[i + stride];
      values[i] = a + b;
      values[i + stride] = a - b;
    }
  }
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < kWidth; i += 64) y.v[to + i] = values[i] * factor;
}
