#include "backends/cuda/ops/concat.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& a = call.inputs[0];
  const Operand& b = call.inputs[1];
  const Operand& y = call.outputs[0];
  call.recorder.launch("concat",
                       ConcatParams{.step = call.step,
                                    .a = a.address,
                                    .b = b.address,
                                    .y = y.address,
                                    .shape = shape_of(y),
                                    .a_strides = strides_of(a),
                                    .b_strides = strides_of(b),
                                    .width = a.size(0)},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& concat_cuda() {
  static const CudaOp op{OpId::Concat, always_supported, record};
  return op;
}

}  // namespace infer::cuda
