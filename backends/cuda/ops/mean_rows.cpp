#include "backends/cuda/ops/mean_rows.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.launch("mean_rows",
                       MeanRowsParams{.step = call.step,
                                      .x = x.address,
                                      .begins = call.inputs[1].address,
                                      .ends = call.inputs[2].address,
                                      .y = y.address,
                                      .shape = shape_of(y),
                                      .x_strides = strides_of(x),
                                      .unused = 0},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& mean_rows_cuda() {
  static const CudaOp op{OpId::MeanRows, always_supported, record};
  return op;
}

}  // namespace infer::cuda
