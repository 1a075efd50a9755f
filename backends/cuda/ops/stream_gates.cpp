#include "backends/cuda/ops/stream_gates.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

static_assert(op::StreamGates::kMostStreams * op::StreamGates::kMostStreams <= kStreamGateThreads);

void record(const NodeCall& call) {
  const auto& p = call.params<op::StreamGates>();
  const Operand& x = call.inputs[0];
  const Operand& taken = call.outputs[0];
  StreamGatesParams params{};
  params.step = call.step;
  params.x = x.address;
  params.scale = call.inputs[1].address;
  params.base = call.inputs[2].address;
  params.taken = taken.address;
  params.rows = shape_of(taken).rows;
  params.x_stride = x.stride(2);
  params.taken_stride = taken.stride(2);
  if (p.iterations > 0) {
    params.given = call.outputs[1].address;
    params.mix = call.outputs[2].address;
    params.given_stride = call.outputs[1].stride(2);
    params.mix_stride = call.outputs[2].stride(2);
  }
  params.streams = static_cast<uint32_t>(p.streams);
  params.iterations = static_cast<uint32_t>(p.iterations);
  params.eps = p.eps;
  call.recorder.launch("stream_gates", params, {taken.dim(2), 1, 1}, kStreamGateThreads);
}

}  // namespace

const CudaOp& stream_gates_cuda() {
  static const CudaOp op{OpId::StreamGates, always_supported, record};
  return op;
}

}  // namespace infer::cuda
