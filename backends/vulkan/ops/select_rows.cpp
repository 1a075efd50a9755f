#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, indices, y;
  ShapePush shape;
  StridePush x_strides;
};

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("select_rows",
                         Push{.step = call.step,
                              .x = x.address,
                              .indices = call.inputs[1].address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x)},
                         elements_of(y));
}

}  // namespace

const VulkanOp& select_rows_vulkan() {
  static const VulkanOp op{OpId::SelectRows, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
