#include "backends/cuda/ops/layer_norm.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& weight = call.inputs[1];
  const Operand& bias = call.inputs[2];
  const Operand& y = call.outputs[0];
  call.recorder.launch(
      "layer_norm",
      LayerNormParams{.step = call.step,
                      .x = x.address,
                      .weight = weight.given() ? weight.address : 0,
                      .bias = bias.given() ? bias.address : 0,
                      .y = y.address,
                      .shape = shape_of(y),
                      .x_strides = strides_of(x),
                      .weight_strides = weight.given() ? strides_of(weight) : gpu::StridePush{},
                      .eps = call.params<op::LayerNorm>().eps},
      {1, y.dim(1), y.dim(2)}, kLayerNormThreads);
}

}  // namespace

const CudaOp& layer_norm_cuda() {
  static const CudaOp op{OpId::LayerNorm, always_supported, record};
  return op;
}

}  // namespace infer::cuda
