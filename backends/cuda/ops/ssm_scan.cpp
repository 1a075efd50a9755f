#include "backends/cuda/scan.h"

namespace infer::cuda {
namespace {

Status supports(const NodeView& node) {
  return scan_supports(node.input(1)->desc.shape[0],
                       std::get<op::SsmScan>(node.node.params).by_element);
}

void record(const NodeCall& call) {
  record_scan(call, gpu::scan_of(call.params<op::SsmScan>(), call.inputs, call.outputs[0]));
}

}  // namespace

const CudaOp& ssm_scan_cuda() {
  static const CudaOp op{OpId::SsmScan, supports, record, nullptr, CacheUse::writes};
  return op;
}

}  // namespace infer::cuda
