#include "backends/cuda/ops/outstanding.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.launch("outstanding",
                       OutstandingParams{.step = call.step,
                                         .x = x.address,
                                         .y = y.address,
                                         .shape = shape_of(y),
                                         .x_strides = strides_of(x),
                                         .factor = call.params<op::Outstanding>().factor},
                       {1, y.dim(1), y.dim(2)}, kOutstandingThreads);
}

}  // namespace

const CudaOp& outstanding_cuda() {
  static const CudaOp op{OpId::Outstanding, always_supported, record};
  return op;
}

}  // namespace infer::cuda
