#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/elements.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, mix_of, h, shares, y;
  Shape shape;
  Strides x_strides;
  uint mix_stride, h_stride, shares_stride;  // of rows
};

void main() {
  uvec3 i;
  if (!element(shape, step, i)) return;
  precise float sum = shares.v[i.z * shares_stride + i.y] * h.v[i.z * h_stride + i.x];
  for (uint from = 0; from < shape.d1; ++from) {
    const float share = mix_of.v[i.z * mix_stride + from * shape.d1 + i.y];
    sum = fma(share, x.v[at(x_strides, from, i.z) + i.x], sum);
  }
  y.v[at(shape, i.y, i.z) + i.x] = sum;
}
