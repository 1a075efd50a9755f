#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/elements.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, weights, y;
  Shape shape;
  Strides x_strides, weight_strides;
  uint used;
};

void main() {
  uvec3 i;
  if (!element(shape, step, i)) return;
  const uint first = at(weight_strides, 0, i.z);
  precise float sum = 0;
  for (uint e = 0; e < used; ++e) {
    sum = fma(weights.v[first + e], x.v[at(x_strides, e, i.z) + i.x], sum);
  }
  y.v[at(shape, 0, i.z) + i.x] = sum;
}
