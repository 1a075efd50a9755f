#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, y;
  ShapePush shape;
  StridePush x_strides;
  uint32_t kind;  ///< op::Gelu::Kind
};

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("gelu",
                         Push{.step = call.step,
                              .x = x.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .kind = static_cast<uint32_t>(call.params<op::Gelu>().kind)},
                         elements_of(y));
}

}  // namespace

const VulkanOp& gelu_vulkan() {
  static const VulkanOp op{OpId::Gelu, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
