#include "backends/cuda/ops/softcap.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.launch("softcap",
                       SoftcapParams{.step = call.step,
                                     .x = x.address,
                                     .y = y.address,
                                     .shape = shape_of(y),
                                     .x_strides = strides_of(x),
                                     .cap = call.params<op::Softcap>().cap},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& softcap_cuda() {
  static const CudaOp op{OpId::Softcap, always_supported, record};
  return op;
}

}  // namespace infer::cuda
