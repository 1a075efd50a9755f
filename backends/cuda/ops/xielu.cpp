#include "backends/cuda/ops/xielu.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const auto& params = call.params<op::Xielu>();
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.launch("xielu",
                       XieluParams{.step = call.step,
                                   .x = x.address,
                                   .y = y.address,
                                   .shape = shape_of(y),
                                   .x_strides = strides_of(x),
                                   .positive = params.positive,
                                   .negative = params.negative,
                                   .beta = params.beta,
                                   .eps = params.eps,
                                   .unused = 0},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& xielu_cuda() {
  static const CudaOp op{OpId::Xielu, always_supported, record};
  return op;
}

}  // namespace infer::cuda
