#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/elements.glsl"
#include "backends/vulkan/glsl/rope.glsl"

layout(constant_id = 0) const uint style = 0;  // op::Rope::Style

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, table, y;
  Shape shape;
  Strides x_strides, table_strides;
  uint pairs;
};

void main() {
  uvec3 i;
  if (!element(shape, step, i)) return;
  y.v[at(shape, i.y, i.z) + i.x] =
      roped(style, x, at(x_strides, i.y, i.z), i.x, pairs, table, table_strides, i.z);
}
