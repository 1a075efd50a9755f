#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, weight, y;
  ShapePush shape;
  StridePush x_strides;
};

void record(const NodeCall& call) {
  const Operand& weight = call.inputs[1];
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("multiply",
                         Push{.step = call.step,
                              .x = x.address,
                              .weight = weight.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x)},
                         elements_of(y));
}

}  // namespace

const VulkanOp& multiply_vulkan() {
  static const VulkanOp op{OpId::Multiply, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
