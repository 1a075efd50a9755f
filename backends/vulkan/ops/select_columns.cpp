#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, indices, y;
  ShapePush shape;
  StridePush x_strides;
  int32_t width;
};

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("select_columns",
                         Push{.step = call.step,
                              .x = x.address,
                              .indices = call.inputs[1].address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .width = static_cast<int32_t>(x.dim(0))},
                         elements_of(y));
}

}  // namespace

const VulkanOp& select_columns_vulkan() {
  static const VulkanOp op{OpId::SelectColumns, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
