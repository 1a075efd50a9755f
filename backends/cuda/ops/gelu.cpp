#include "backends/cuda/ops/gelu.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.launch("gelu",
                       GeluParams{.step = call.step,
                                  .x = x.address,
                                  .y = y.address,
                                  .shape = shape_of(y),
                                  .x_strides = strides_of(x),
                                  .unused = 0},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& gelu_cuda() {
  static const CudaOp op{OpId::Gelu, always_supported, record};
  return op;
}

}  // namespace infer::cuda
