#include "backends/cuda/ops/select_columns.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.launch("select_columns",
                       SelectColumnsParams{.step = call.step,
                                           .x = x.address,
                                           .indices = call.inputs[1].address,
                                           .y = y.address,
                                           .shape = shape_of(y),
                                           .x_strides = strides_of(x),
                                           .width = static_cast<int32_t>(x.dim(0))},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& select_columns_cuda() {
  static const CudaOp op{OpId::SelectColumns, always_supported, record};
  return op;
}

}  // namespace infer::cuda
