#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/activation.glsl"
#include "backends/vulkan/glsl/elements.glsl"

layout(constant_id = 0) const uint kind = 0;  // op::Glu::Kind

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 gate, up, y;
  Shape shape;
  Strides gate_strides, up_strides;
  float alpha, limit;
};

void main() {
  uvec3 i;
  if (!element(shape, step, i)) return;
  y.v[at(shape, i.y, i.z) + i.x] = activated(kind, alpha, limit, gate.v[at(gate_strides, i.y, i.z) + i.x],
                                             up.v[at(up_strides, i.y, i.z) + i.x]);
}
