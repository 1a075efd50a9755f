#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, y;
  ShapePush shape;
  StridePush x_strides;
  float factor;
};

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("outstanding",
                         Push{.step = call.step,
                              .x = x.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .factor = call.params<op::Outstanding>().factor},
                         {1, y.dim(1), y.dim(2)});
}

}  // namespace

const VulkanOp& outstanding_vulkan() {
  static const VulkanOp op{OpId::Outstanding, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
