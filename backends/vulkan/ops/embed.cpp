#include "backends/vulkan/product.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

/// weights/embed.comp
struct Push {
  VkDeviceAddress step, w, tokens, y;
  uint32_t width, vocabulary, y_stride;
  uint32_t rows;
  float factor;
  std::array<uint32_t, 4> planes;
};

void record(const NodeCall& call) {
  const Operand& tokens = call.inputs[0];
  const Operand& table = call.inputs[1];
  const Operand& y = call.outputs[0];
  const std::string shader = "embed_" + std::string(dtype_info(table.value->desc.type).ident);
  constexpr int64_t kGroup = 64 * 32;  // weights of a workgroup
  call.recorder.dispatch(shader,
                         Push{.step = call.step,
                              .w = table.address,
                              .tokens = tokens.address,
                              .y = y.address,
                              .width = table.size(0),
                              .vocabulary = table.size(1),
                              .y_stride = y.stride(2),
                              .rows = shape_of(y).rows,
                              .factor = call.params<op::Embed>().scale,
                              .planes = plane_offsets(table.value->desc)},
                         {div_ceil(table.dim(0), kGroup), y.dim(2), 1});
}

}  // namespace

const VulkanOp& embed_vulkan() {
  static const VulkanOp op{OpId::Embed, product_supports, record};
  return op;
}

}  // namespace infer::vulkan
