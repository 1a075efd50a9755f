#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, mix, h, shares, y;
  ShapePush shape;
  StridePush x_strides;
  uint32_t mix_stride, h_stride, shares_stride;
};

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("mix_streams",
                         Push{.step = call.step,
                              .x = x.address,
                              .mix = call.inputs[1].address,
                              .h = call.inputs[2].address,
                              .shares = call.inputs[3].address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .mix_stride = call.inputs[1].stride(2),
                              .h_stride = call.inputs[2].stride(2),
                              .shares_stride = call.inputs[3].stride(2)},
                         elements_of(y));
}

}  // namespace

const VulkanOp& mix_streams_vulkan() {
  static const VulkanOp op{OpId::MixStreams, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
