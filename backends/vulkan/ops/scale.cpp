#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, y;
  ShapePush shape;
  StridePush x_strides;
  float factor, least, most;
};

void record(const NodeCall& call) {
  const auto& p = call.params<op::Scale>();
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("scale",
                         Push{.step = call.step,
                              .x = x.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .factor = p.factor,
                              .least = p.least,
                              .most = p.most},
                         elements_of(y));
}

}  // namespace

const VulkanOp& scale_vulkan() {
  static const VulkanOp op{OpId::Scale, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
