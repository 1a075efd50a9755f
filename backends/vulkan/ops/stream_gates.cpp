#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, scale, base, taken, given, mix;
  uint32_t rows;
  uint32_t x_stride, taken_stride, given_stride, mix_stride;
  uint32_t streams, iterations;
  float eps;
};

void record(const NodeCall& call) {
  const auto& p = call.params<op::StreamGates>();
  const Operand& x = call.inputs[0];
  const Operand& taken = call.outputs[0];
  Push push{.step = call.step,
            .x = x.address,
            .scale = call.inputs[1].address,
            .base = call.inputs[2].address,
            .taken = taken.address,
            .given = taken.address,
            .mix = taken.address,
            .rows = shape_of(taken).rows,
            .x_stride = x.stride(2),
            .taken_stride = taken.stride(2),
            .given_stride = 0,
            .mix_stride = 0,
            .streams = static_cast<uint32_t>(p.streams),
            .iterations = static_cast<uint32_t>(p.iterations),
            .eps = p.eps};
  if (p.iterations > 0) {
    push.given = call.outputs[1].address;
    push.mix = call.outputs[2].address;
    push.given_stride = call.outputs[1].stride(2);
    push.mix_stride = call.outputs[2].stride(2);
  }
  call.recorder.dispatch("stream_gates", push, {taken.dim(2), 1, 1});
}

}  // namespace

const VulkanOp& stream_gates_vulkan() {
  static const VulkanOp op{OpId::StreamGates, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
