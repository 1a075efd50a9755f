#include <cmath>

#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, y;
  ShapePush shape;
  StridePush x_strides;
  float factor;
};

Status supports(const NodeView& node) {
  const int64_t bytes = node.input(0)->desc.shape[0] * int64_t{sizeof(float)};
  if (bytes <= node.device.limits.maxComputeSharedMemorySize) return {};
  return error(StatusCode::unsupported, "a row of {} bytes is more than shared memory holds: {}",
               bytes, node.device.limits.maxComputeSharedMemorySize);
}

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  const int64_t block = call.params<op::Hadamard>().block;
  const HadamardConstants constants{.block = static_cast<uint32_t>(block), .width = x.size(0)};
  const float factor = 1.0f / std::sqrt(static_cast<float>(block));
  call.recorder.dispatch("hadamard", constants,
                         Push{.step = call.step,
                              .x = x.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .factor = factor},
                         {1, y.dim(1), y.dim(2)});
}

}  // namespace

const VulkanOp& hadamard_vulkan() {
  static const VulkanOp op{OpId::Hadamard, supports, record};
  return op;
}

}  // namespace infer::vulkan
