#include "backends/cuda/ops/match_magnitude.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& like = call.inputs[1];
  const Operand& y = call.outputs[0];
  call.recorder.launch("match_magnitude",
                       MatchMagnitudeParams{.step = call.step,
                                            .x = x.address,
                                            .like = like.address,
                                            .y = y.address,
                                            .shape = shape_of(y),
                                            .x_strides = strides_of(x),
                                            .like_strides = strides_of(like),
                                            .floor = call.params<op::MatchMagnitude>().floor},
                       {1, y.dim(1), y.dim(2)}, kMatchMagnitudeThreads);
}

}  // namespace

const CudaOp& match_magnitude_cuda() {
  static const CudaOp op{OpId::MatchMagnitude, always_supported, record};
  return op;
}

}  // namespace infer::cuda
