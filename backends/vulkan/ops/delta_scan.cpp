#include "backends/vulkan/scan.h"

namespace infer::vulkan {
namespace {

Status supports(const NodeView& node) { return scan_supports(node, node.input(0)->desc.shape[0]); }

void record(const NodeCall& call) {
  record_scan(call, gpu::scan_of(call.params<op::DeltaScan>(), call.inputs, call.outputs[0]));
}

}  // namespace

const VulkanOp& delta_scan_vulkan() {
  static const VulkanOp op{OpId::DeltaScan, supports, record, nullptr, CacheUse::writes};
  return op;
}

}  // namespace infer::vulkan
