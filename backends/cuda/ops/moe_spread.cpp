#include "backends/cuda/ops/moe_spread.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& weights = call.inputs[1];
  const Operand& y = call.outputs[0];
  call.recorder.launch("moe_spread",
                       MoeSpreadParams{.step = call.step,
                                       .x = x.address,
                                       .weights = weights.address,
                                       .y = y.address,
                                       .shape = shape_of(y),
                                       .x_strides = strides_of(x),
                                       .weight_strides = strides_of(weights),
                                       .unused = 0},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& moe_spread_cuda() {
  static const CudaOp op{OpId::MoeSpread, always_supported, record};
  return op;
}

}  // namespace infer::cuda
