#include "backends/cuda/ops/glu.h"

#include "backends/cuda/device/activation.h"
#include "backends/cuda/device/curves.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

/// The activations that kernels of products have, and the others.
INFER_DEVICE float any_activated(const GluParams& p, float gate, float up) {
  switch (p.kind) {
    case kGluSigmoid: return sigmoid_of(gate) * up;
    case kGluRelu: return most_of(gate, 0.0f) * up;
    case kGluBilinear: return gate * up;
    case kGluGelu: return gelu_of(gate) * up;
    case kGluSoftplus: return softplus_of(gate) * up;
    default: return activated(p.kind, p.alpha, p.limit, gate, up);
  }
}

INFER_KERNEL(glu, GluParams, kElementThreads, 1) {
  const Element e = element_of(p.shape, p.step);
  if (!e.given) return;
  const float gate = Global<const float>(p.gate)[place(p.gate_strides, e.d1, e.row) + e.d0];
  const float up = Global<const float>(p.up)[place(p.up_strides, e.d1, e.row) + e.d0];
  Global<float>(p.y)[place(p.shape, e.d1, e.row) + e.d0] = any_activated(p, gate, up);
}

}  // namespace infer::cuda
