#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/elements.glsl"

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 x, y;
  Shape shape;
  Strides x_strides;
  uint kind;  // op::Gelu::Kind
};

void main() {
  uvec3 i;
  if (!element(shape, step, i)) return;
  const float value = x.v[at(x_strides, i.y, i.z) + i.x];
  const precise float y_of = kind == 0   ? gelu_of(value)
                             : kind == 1 ? gelu_tanh(value)
                                         : value * sigmoid_of(1.702 * value);
  y.v[at(shape, i.y, i.z) + i.x] = y_of;
}
