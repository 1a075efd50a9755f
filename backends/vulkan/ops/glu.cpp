#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, gate, up, y;
  ShapePush shape;
  StridePush gate_strides, up_strides;
  float alpha, limit;
};

void record(const NodeCall& call) {
  const auto& params = call.params<op::Glu>();
  const Operand& gate = call.inputs[0];
  const Operand& up = call.inputs[1];
  const Operand& y = call.outputs[0];
  const GluConstants constants{.kind = static_cast<uint32_t>(params.kind)};
  call.recorder.dispatch("glu", constants,
                         Push{.step = call.step,
                              .gate = gate.address,
                              .up = up.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .gate_strides = strides_of(gate),
                              .up_strides = strides_of(up),
                              .alpha = params.alpha,
                              .limit = params.limit},
                         elements_of(y));
}

}  // namespace

const VulkanOp& glu_vulkan() {
  static const VulkanOp op{OpId::Glu, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
