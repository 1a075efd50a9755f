#include "backends/vulkan/op.h"

namespace infer::vulkan {

const OpTable<VulkanOp>& vulkan_ops() {
  static const OpTable<VulkanOp> table(all_vulkan_ops());
  return table;
}

int64_t Target::scratch_bytes(const Graph& graph, const Node& node, Roles roles) const {
  const VulkanOp* op = ops.find(node.op());
  if (op == nullptr || op->scratch == nullptr) return 0;
  return op->scratch({graph, node, device}, tuning, roles);
}

CacheUse Target::cache_use(const Node& node) const {
  const VulkanOp* op = ops.find(node.op());
  return op == nullptr ? CacheUse::none : op->cache;
}

}  // namespace infer::vulkan
