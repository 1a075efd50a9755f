#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, weight, bias, y;
  ShapePush shape;
  StridePush x_strides, weight_strides;
  uint32_t weighted, biased;
  float eps;
};

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& weight = call.inputs[1];
  const Operand& bias = call.inputs[2];
  const Operand& y = call.outputs[0];
  StridePush weight_strides = weight.given() ? strides_of(weight) : StridePush{};
  if (weight.given() && weight.dim(1) == 1) weight_strides.stride1 = 0;  // one for all heads
  call.recorder.dispatch("layer_norm",
                         Push{.step = call.step,
                              .x = x.address,
                              .weight = weight.given() ? weight.address : 0,
                              .bias = bias.given() ? bias.address : 0,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .weight_strides = weight_strides,
                              .weighted = weight.given() ? 1u : 0u,
                              .biased = bias.given() ? 1u : 0u,
                              .eps = call.params<op::LayerNorm>().eps},
                         {1, y.dim(1), y.dim(2)});
}

}  // namespace

const VulkanOp& layer_norm_vulkan() {
  static const VulkanOp op{OpId::LayerNorm, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
