#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, table, y;
  ShapePush shape;
  StridePush x_strides, table_strides;
  uint32_t pairs;
};

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& table = call.inputs[1];
  const Operand& y = call.outputs[0];
  const RopeConstants constants{.style = static_cast<uint32_t>(call.params<op::Rope>().style)};
  call.recorder.dispatch("rope", constants,
                         Push{.step = call.step,
                              .x = x.address,
                              .table = table.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .table_strides = strides_of(table),
                              .pairs = table.size(1)},
                         elements_of(y));
}

}  // namespace

const VulkanOp& rope_vulkan() {
  static const VulkanOp op{OpId::Rope, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
