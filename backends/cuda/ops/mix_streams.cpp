#include "backends/cuda/ops/mix_streams.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.launch("mix_streams",
                       MixStreamsParams{.step = call.step,
                                        .x = x.address,
                                        .mix = call.inputs[1].address,
                                        .h = call.inputs[2].address,
                                        .shares = call.inputs[3].address,
                                        .y = y.address,
                                        .shape = shape_of(y),
                                        .x_strides = strides_of(x),
                                        .mix_stride = call.inputs[1].stride(2),
                                        .h_stride = call.inputs[2].stride(2),
                                        .shares_stride = call.inputs[3].stride(2)},
                       elements_of(y, kElementThreads), kElementThreads);
}

}  // namespace

const CudaOp& mix_streams_cuda() {
  static const CudaOp op{OpId::MixStreams, always_supported, record};
  return op;
}

}  // namespace infer::cuda
