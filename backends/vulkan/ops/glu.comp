#version 460
#include "backends/vulkan/glsl/common.glsl"
#include "backends/vulkan/glsl/math.glsl"
#include "backends/vulkan/glsl/elements.glsl"

layout(constant_id = 0) const uint kind = 0;  // op::Glu::Kind

layout(push_constant, scalar) uniform Push {
  Step step;
  F32 gate, up, y;
  Shape shape;
  Strides gate_strides, up_strides;
  float alpha, limit;
};

float activated(float g, float u) {
  if (kind == 0) return g * sigmoid_of(g) * u;
  if (kind == 1) {
    // (1 + tanh(x)) / 2 is the sigmoid of 2x.
    const float inner = 0.79788456080286536 * (g + 0.044715 * g * g * g);
    return g * sigmoid_of(2.0 * inner) * u;
  }
  const float limited = min(g, limit);
  return limited * sigmoid_of(limited * alpha) * (clamp(u, -limit, limit) + 1.0);
}

void main() {
  uvec3 i;
  if (!element(shape, step, i)) return;
  y.v[at(shape, i.y, i.z) + i.x] = activated(gate.v[at(gate_strides, i.y, i.z) + i.x],
                                             up.v[at(up_strides, i.y, i.z) + i.x]);
}
