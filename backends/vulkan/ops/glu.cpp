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
  const uint32_t constants[] = {static_cast<uint32_t>(params.kind)};
  call.recorder.dispatch("glu", constants,
                         Push{call.step, gate.address, up.address, y.address, shape_of(y),
                              strides_of(gate), strides_of(up), params.alpha, params.limit},
                         elements_of(y));
}

}  // namespace

const VulkanOp& glu_vulkan() {
  static const VulkanOp op{OpId::Glu, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
