#include "backends/vulkan/glsl/math.glsl"

// op::Glu: activation(gate) · up.
float activated(uint kind, float alpha, float limit, float g, float u) {
  if (kind == 0) return g * sigmoid_of(g) * u;
  if (kind == 1) {
    // (1 + tanh(x)) / 2 is the sigmoid of 2x.
    const float inner = 0.79788456080286536 * (g + 0.044715 * g * g * g);
    return g * sigmoid_of(2.0 * inner) * u;
  }
  const float limited = min(g, limit);
  return limited * sigmoid_of(limited * alpha) * (clamp(u, -limit, limit) + 1.0);
}
