#include "backends/cuda/ops/rms_norm.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& weight = call.inputs[1];
  const Operand& y = call.outputs[0];
  const int threads = x.size(0) < 512 ? 64 : kNormThreads;  // heads are short
  call.recorder.launch("rms_norm",
                       RmsNormParams{.step = call.step,
                                     .x = x.address,
                                     .weight = weight.given() ? weight.address : 0,
                                     .y = y.address,
                                     .shape = shape_of(y),
                                     .x_strides = strides_of(x),
                                     .eps = call.params<op::RmsNorm>().eps},
                       {1, y.dim(1), y.dim(2)}, threads);
}

}  // namespace

const CudaOp& rms_norm_cuda() {
  static const CudaOp op{OpId::RmsNorm, always_supported, record};
  return op;
}

}  // namespace infer::cuda
