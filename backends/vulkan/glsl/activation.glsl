#include "backends/vulkan/glsl/math.glsl"

// op::Glu: activation(gate) · up.
float activated(uint kind, float alpha, float limit, float g, float u) {
  // precise: the same bits wherever it is computed.
  if (kind == 0) {
    const precise float y = g * sigmoid_of(g) * u;
    return y;
  }
  if (kind == 1) {
    const precise float y = gelu_tanh(g) * u;
    return y;
  }
  if (kind == 3) {
    const precise float y = sigmoid_of(g) * u;
    return y;
  }
  if (kind == 4) {
    const precise float y = max(g, 0.0) * u;
    return y;
  }
  if (kind == 5) {
    const precise float y = g * u;
    return y;
  }
  if (kind == 6) {
    const precise float y = gelu_of(g) * u;
    return y;
  }
  if (kind == 7) {
    const precise float y = softplus_of(g) * u;
    return y;
  }
  const float limited = min(g, limit);
  const precise float y =
      limited * sigmoid_of(limited * alpha) * (clamp(u, -limit, limit) + 1.0);
  return y;
}
