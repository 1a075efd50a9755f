#include "backends/cuda/ops/scale.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const auto& p = call.params<op::Scale>();
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.launch("scale",
                       ScaleParams{.step = call.step,
                                   .x = x.address,
                                   .y = y.address,
                                   .shape = shape_of(y),
                                   .x_strides = strides_of(x),
                                   .factor = p.factor,
                                   .least = p.least,
                                   .most = p.most},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& scale_cuda() {
  static const CudaOp op{OpId::Scale, always_supported, record};
  return op;
}

}  // namespace infer::cuda
