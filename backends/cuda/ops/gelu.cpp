#include "backends/cuda/ops/gelu.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

static_assert(static_cast<uint32_t>(op::Gelu::Kind::exact) == kGeluExact &&
              static_cast<uint32_t>(op::Gelu::Kind::tanh) == kGeluTanh &&
              static_cast<uint32_t>(op::Glu::Kind::gelu_tanh) == kGeluTanh);

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.launch("gelu",
                       GeluParams{.step = call.step,
                                  .x = x.address,
                                  .y = y.address,
                                  .shape = shape_of(y),
                                  .x_strides = strides_of(x),
                                  .kind = static_cast<uint32_t>(call.params<op::Gelu>().kind)},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& gelu_cuda() {
  static const CudaOp op{OpId::Gelu, always_supported, record};
  return op;
}

}  // namespace infer::cuda
