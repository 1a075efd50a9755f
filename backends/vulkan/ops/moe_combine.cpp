#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, weights, y;
  ShapePush shape;
  StridePush x_strides, weight_strides;
  uint32_t used;
};

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& weights = call.inputs[1];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("moe_combine",
                         Push{.step = call.step,
                              .x = x.address,
                              .weights = weights.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .weight_strides = strides_of(weights),
                              .used = x.size(1)},
                         elements_of(y));
}

}  // namespace

const VulkanOp& moe_combine_vulkan() {
  static const VulkanOp op{OpId::MoeCombine, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
