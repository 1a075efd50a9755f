#include "backends/cuda/scan.h"

namespace infer::cuda {
namespace {

Status supports(const NodeView& node) { return scan_supports(node.input(0)->desc.shape[0]); }

void record(const NodeCall& call) {
  record_scan(call, gpu::scan_of(call.params<op::DeltaScan>(), call.inputs, call.outputs[0]));
}

}  // namespace

const CudaOp& delta_scan_cuda() {
  static const CudaOp op{OpId::DeltaScan, supports, record, nullptr, CacheUse::writes};
  return op;
}

}  // namespace infer::cuda
