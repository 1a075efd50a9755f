#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/elements.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, y;
  Shape shape;
  Strides x_strides;
  float factor, least, most;
};

void main() {
  uvec3 i;
  if (!element(shape, step, i)) return;
  const float value = x.v[at(x_strides, i.y, i.z) + i.x];
  y.v[at(shape, i.y, i.z) + i.x] = min(max(factor * value, least), most);
}
