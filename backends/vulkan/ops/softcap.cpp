#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, y;
  ShapePush shape;
  StridePush x_strides;
  float cap;
};

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("softcap",
                         Push{.step = call.step,
                              .x = x.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .cap = call.params<op::Softcap>().cap},
                         elements_of(y));
}

}  // namespace

const VulkanOp& softcap_vulkan() {
  static const VulkanOp op{OpId::Softcap, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
