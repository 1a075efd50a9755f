#include "backends/cuda/ops/rope.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& table = call.inputs[1];
  const Operand& y = call.outputs[0];
  call.recorder.launch("rope",
                       RopeParams{.step = call.step,
                                  .x = x.address,
                                  .table = table.address,
                                  .y = y.address,
                                  .shape = shape_of(y),
                                  .x_strides = strides_of(x),
                                  .table_strides = strides_of(table),
                                  .pairs = table.size(1),
                                  .style = static_cast<uint32_t>(call.params<op::Rope>().style),
                                  .unused = 0},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& rope_cuda() {
  static const CudaOp op{OpId::Rope, always_supported, record};
  return op;
}

}  // namespace infer::cuda
