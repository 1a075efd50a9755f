#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, weights, y;
  ShapePush shape;
  StridePush x_strides, weight_strides;
};

void record(const NodeCall& call) {
  const Operand& weights = call.inputs[1];
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("moe_spread",
                         Push{.step = call.step,
                              .x = x.address,
                              .weights = weights.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .weight_strides = strides_of(weights)},
                         elements_of(y));
}

}  // namespace

const VulkanOp& moe_spread_vulkan() {
  static const VulkanOp op{OpId::MoeSpread, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
