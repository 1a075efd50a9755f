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
  const uint32_t constants[] = {static_cast<uint32_t>(call.params<op::Rope>().style)};
  call.recorder.dispatch("rope", constants,
                         Push{call.step, x.address, table.address, y.address, shape_of(y),
                              strides_of(x), strides_of(table), table.size(1)},
                         elements_of(y));
}

}  // namespace

const VulkanOp& rope_vulkan() {
  static const VulkanOp op{OpId::Rope, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
