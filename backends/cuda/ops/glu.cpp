#include "backends/cuda/ops/glu.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

static_assert(static_cast<uint32_t>(op::Glu::Kind::sigmoid) == kGluSigmoid &&
              static_cast<uint32_t>(op::Glu::Kind::relu) == kGluRelu &&
              static_cast<uint32_t>(op::Glu::Kind::bilinear) == kGluBilinear &&
              static_cast<uint32_t>(op::Glu::Kind::gelu) == kGluGelu &&
              static_cast<uint32_t>(op::Glu::Kind::softplus) == kGluSoftplus);

void record(const NodeCall& call) {
  const auto& params = call.params<op::Glu>();
  const Operand& gate = call.inputs[0];
  const Operand& up = call.inputs[1];
  const Operand& y = call.outputs[0];
  call.recorder.launch("glu",
                       GluParams{.step = call.step,
                                 .gate = gate.address,
                                 .up = up.address,
                                 .y = y.address,
                                 .shape = shape_of(y),
                                 .gate_strides = strides_of(gate),
                                 .up_strides = strides_of(up),
                                 .kind = static_cast<uint32_t>(params.kind),
                                 .alpha = params.alpha,
                                 .limit = params.limit},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& glu_cuda() {
  static const CudaOp op{OpId::Glu, always_supported, record};
  return op;
}

}  // namespace infer::cuda
