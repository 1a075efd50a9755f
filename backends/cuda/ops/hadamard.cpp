#include "backends/cuda/ops/hadamard.h"

#include <cmath>

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

Status supports(const NodeView& node) {
  const int64_t bytes = node.input(0)->desc.shape[0] * int64_t{sizeof(float)};
  if (bytes <= node.gpu.shared_bytes) return {};
  return error(StatusCode::unsupported, "a row of {} bytes is more than shared memory holds: {}",
               bytes, node.gpu.shared_bytes);
}

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  const int64_t block = call.params<op::Hadamard>().block;
  call.recorder.launch("hadamard",
                       HadamardParams{.step = call.step,
                                      .x = x.address,
                                      .y = y.address,
                                      .shape = shape_of(y),
                                      .x_strides = strides_of(x),
                                      .block = static_cast<uint32_t>(block),
                                      .factor = 1.0f / std::sqrt(static_cast<float>(block)),
                                      .unused = 0},
                       {1, y.dim(1), y.dim(2)}, kHadamardThreads,
                       x.dim(0) * int64_t{sizeof(float)});
}

}  // namespace

const CudaOp& hadamard_cuda() {
  static const CudaOp op{OpId::Hadamard, supports, record};
  return op;
}

}  // namespace infer::cuda
