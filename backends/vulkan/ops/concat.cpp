#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, a, b, y;
  ShapePush shape;
  StridePush a_strides, b_strides;
  uint32_t width;
};

void record(const NodeCall& call) {
  const Operand& a = call.inputs[0];
  const Operand& b = call.inputs[1];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("concat",
                         Push{.step = call.step,
                              .a = a.address,
                              .b = b.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .a_strides = strides_of(a),
                              .b_strides = strides_of(b),
                              .width = a.size(0)},
                         elements_of(y));
}

}  // namespace

const VulkanOp& concat_vulkan() {
  static const VulkanOp op{OpId::Concat, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
