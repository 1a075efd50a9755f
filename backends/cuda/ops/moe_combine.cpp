#include "backends/cuda/ops/moe_combine.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& weights = call.inputs[1];
  const Operand& y = call.outputs[0];
  call.recorder.launch("moe_combine",
                       MoeCombineParams{.step = call.step,
                                        .x = x.address,
                                        .weights = weights.address,
                                        .y = y.address,
                                        .shape = shape_of(y),
                                        .x_strides = strides_of(x),
                                        .weight_strides = strides_of(weights),
                                        .used = x.size(1)},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& moe_combine_cuda() {
  static const CudaOp op{OpId::MoeCombine, always_supported, record};
  return op;
}

}  // namespace infer::cuda
