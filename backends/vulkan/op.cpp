#include "backends/vulkan/op.h"

#include "engine/core/checked.h"

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

ShapePush shape_of(const Operand& result) {
  return {result.size(0), result.size(1), result.stride(1), result.stride(2),
          result.value->rows == Rows::outputs ? 1u : 0u};
}

Groups elements_of(const Operand& result) {
  return {div_ceil<int64_t>(result.dim(0), 64), result.dim(1), result.dim(2)};
}

StridePush strides_of(const Operand& operand) {
  return {operand.dim(1) == 1 ? 0 : operand.stride(1), operand.stride(2)};
}

}  // namespace infer::vulkan
