#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, q, k, y;
  ShapePush shape;
  StridePush q_strides, k_strides;
  uint32_t width;
  float scale;
};

void record(const NodeCall& call) {
  const Operand& q = call.inputs[0];
  const Operand& k = call.inputs[1];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("memory_gate",
                         Push{.step = call.step,
                              .q = q.address,
                              .k = k.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .q_strides = strides_of(q),
                              .k_strides = strides_of(k),
                              .width = q.size(0),
                              .scale = call.params<op::MemoryGate>().scale},
                         {1, q.dim(1), q.dim(2)});
}

}  // namespace

const VulkanOp& memory_gate_vulkan() {
  static const VulkanOp op{OpId::MemoryGate, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
