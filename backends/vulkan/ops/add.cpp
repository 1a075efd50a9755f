#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, a, b, y;
  ShapePush shape;
  StridePush a_strides, b_strides;
  float scale;
};

void record(const NodeCall& call) {
  const Operand& a = call.inputs[0];
  const Operand& b = call.inputs[1];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("add",
                         Push{.step = call.step,
                              .a = a.address,
                              .b = b.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .a_strides = strides_of(a),
                              .b_strides = strides_of(b),
                              .scale = call.params<op::Add>().scale},
                         elements_of(y));
}

}  // namespace

const VulkanOp& add_vulkan() {
  static const VulkanOp op{OpId::Add, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
