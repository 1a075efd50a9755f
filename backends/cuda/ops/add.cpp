#include "backends/cuda/ops/add.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& a = call.inputs[0];
  const Operand& b = call.inputs[1];
  const Operand& y = call.outputs[0];
  call.recorder.launch("add",
                       AddParams{.step = call.step,
                                 .a = a.address,
                                 .b = b.address,
                                 .y = y.address,
                                 .shape = shape_of(y),
                                 .a_strides = strides_of(a),
                                 .b_strides = strides_of(b),
                                 .scale = call.params<op::Add>().scale},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& add_cuda() {
  static const CudaOp op{OpId::Add, always_supported, record};
  return op;
}

}  // namespace infer::cuda
