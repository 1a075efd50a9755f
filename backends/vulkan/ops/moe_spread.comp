#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/elements.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, weights, y;
  Shape shape;
  Strides x_strides, weight_strides;
};

void main() {
  uvec3 i;
  if (!element(shape, step, i)) return;
  const float weight = weights.v[at(weight_strides, 0, i.z) + i.y];
  y.v[at(shape, i.y, i.z) + i.x] = weight * x.v[at(x_strides, 0, i.z) + i.x];
}
