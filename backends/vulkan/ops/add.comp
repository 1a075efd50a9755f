#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/elements.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 a, b, y;
  Shape shape;
  Strides a_strides, b_strides;
  float scale;
};

void main() {
  uvec3 i;
  if (!element(shape, step, i)) return;
  y.v[at(shape, i.y, i.z) + i.x] =
      fma(scale, b.v[at(b_strides, i.y, i.z) + i.x], a.v[at(a_strides, i.y, i.z) + i.x]);
}
