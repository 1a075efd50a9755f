#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, y;
  ShapePush shape;
  StridePush x_strides;
  float positive, negative, beta, eps;
};

void record(const NodeCall& call) {
  const auto& p = call.params<op::Xielu>();
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("xielu",
                         Push{.step = call.step,
                              .x = x.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .positive = p.positive,
                              .negative = p.negative,
                              .beta = p.beta,
                              .eps = p.eps},
                         elements_of(y));
}

}  // namespace

const VulkanOp& xielu_vulkan() {
  static const VulkanOp op{OpId::Xielu, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
