#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/elements.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x;
  I32 indices;
  F32 y;
  Shape shape;
  Strides x_strides;
  int width;  // of x
};

void main() {
  uvec3 i;
  if (!element(shape, step, i)) return;
  const int from = indices.v[i.x];
  const bool inside = from >= 0 && from < width;
  const uint to = at(shape, i.y, i.z) + i.x;
  y.v[to] = inside ? x.v[at(x_strides, i.y, i.z) + uint(from)] : uintBitsToFloat(0x7fc00000u);
}
