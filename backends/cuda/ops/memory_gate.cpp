#include "backends/cuda/ops/memory_gate.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

void record(const NodeCall& call) {
  const Operand& q = call.inputs[0];
  const Operand& k = call.inputs[1];
  const Operand& y = call.outputs[0];
  call.recorder.launch("memory_gate",
                       MemoryGateParams{.step = call.step,
                                        .q = q.address,
                                        .k = k.address,
                                        .y = y.address,
                                        .shape = shape_of(y),
                                        .q_strides = strides_of(q),
                                        .k_strides = strides_of(k),
                                        .width = q.size(0),
                                        .scale = call.params<op::MemoryGate>().scale,
                                        .unused = 0},
                       {1, q.dim(1), q.dim(2)}, kMemoryGateThreads);
}

}  // namespace

const CudaOp& memory_gate_cuda() {
  static const CudaOp op{OpId::MemoryGate, always_supported, record};
  return op;
}

}  // namespace infer::cuda
