// op::Glu: activation(gate) · up.
#pragma once

#include "backends/cuda/device/math.h"

namespace infer::cuda {

INFER_DEVICE float activated(uint32_t kind, float alpha, float limit, float gate, float up) {
  if (kind == 0) return gate * sigmoid_of(gate) * up;
  if (kind == 1) {
    // (1 + tanh(x)) / 2 is the sigmoid of 2x.
    const float inner = 0.79788456080286536f * fused(0.044715f * gate * gate, gate, gate);
    return gate * sigmoid_of(2.0f * inner) * up;
  }
  const float limited = least_of(gate, limit);
  return limited * sigmoid_of(limited * alpha) * (least_of(most_of(up, -limit), limit) + 1.0f);
}

}  // namespace infer::cuda
