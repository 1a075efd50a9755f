#include <algorithm>

#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, weight, y;
  ShapePush shape;
  StridePush x_strides;
  float eps;
};

void record(const NodeCall& call) {
  const Operand& x = call.inputs[0];
  const Operand& weight = call.inputs[1];
  const Operand& y = call.outputs[0];
  const uint32_t lanes =
      std::min(call.tuning.row_lanes, x.size(0) < 512 ? 64u : 256u);  // heads are short
  const RmsNormConstants constants{.workgroup = lanes, .weighted = weight.given() ? 1u : 0u};
  call.recorder.dispatch("rms_norm", constants,
                         Push{.step = call.step,
                              .x = x.address,
                              .weight = weight.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .eps = call.params<op::RmsNorm>().eps},
                         {1, y.dim(1), y.dim(2)});
}

}  // namespace

const VulkanOp& rms_norm_vulkan() {
  static const VulkanOp op{OpId::RmsNorm, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
