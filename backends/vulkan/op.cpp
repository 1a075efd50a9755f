#include "backends/vulkan/op.h"

#include "engine/core/checked.h"

namespace infer::vulkan {

const VulkanOp& vulkan_op(OpId id) {
  static const auto table = [] {
    std::array<const VulkanOp*, kOpCount> by_id{};
    for (const VulkanOp* op : all_vulkan_ops()) by_id[static_cast<size_t>(op->id)] = op;
    return by_id;
  }();
  return *table[static_cast<size_t>(id)];
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
