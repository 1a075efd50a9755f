#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, x, like, y;
  ShapePush shape;
  StridePush x_strides, like_strides;
  float least;
};

void record(const NodeCall& call) {
  const Operand& like = call.inputs[1];
  const Operand& x = call.inputs[0];
  const Operand& y = call.outputs[0];
  call.recorder.dispatch("match_magnitude",
                         Push{.step = call.step,
                              .x = x.address,
                              .like = like.address,
                              .y = y.address,
                              .shape = shape_of(y),
                              .x_strides = strides_of(x),
                              .like_strides = strides_of(like),
                              .least = call.params<op::MatchMagnitude>().floor},
                         {1, y.dim(1), y.dim(2)});
}

}  // namespace

const VulkanOp& match_magnitude_vulkan() {
  static const VulkanOp op{OpId::MatchMagnitude, always_supported, record};
  return op;
}

}  // namespace infer::vulkan
