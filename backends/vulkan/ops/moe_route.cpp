#include "backends/vulkan/op.h"

namespace infer::vulkan {
namespace {

struct Push {
  VkDeviceAddress step, logits, bias, ids, weights, table, tokens;
  uint32_t rows;
  uint32_t logits_stride, ids_stride, weights_stride;
  uint32_t normalise, groups_used, group_best;
  float factor, margin;
  uint32_t vocabulary;
};

/// What fits into shared memory on every device beside the rest.
constexpr int64_t kMostExperts = 1024;

Status supports(const NodeView& node) {
  const int64_t experts = node.input(0)->desc.shape[0];
  if (experts <= kMostExperts) return {};
  return error(StatusCode::unsupported, "{} experts; at most {} are supported", experts,
               kMostExperts);
}

void record(const NodeCall& call) {
  const auto& p = call.params<op::MoeRoute>();
  const Operand& logits = call.inputs[0];
  const Operand& bias = call.inputs[1];
  const Operand& table = call.inputs[2];
  const Operand& ids = call.outputs[0];
  const Operand& weights = call.outputs[1];
  const MoeRouteConstants constants{.experts = logits.size(0),
                                    .groups = static_cast<uint32_t>(p.groups),
                                    .gating = static_cast<uint32_t>(p.gating),
                                    .biased = bias.given() ? 1u : 0u,
                                    .used = static_cast<uint32_t>(p.used),
                                    .table = table.given() ? 1u : 0u};
  call.recorder.dispatch("moe_route", constants,
                         Push{.step = call.step,
                              .logits = logits.address,
                              .bias = bias.address,
                              .ids = ids.address,
                              .weights = weights.address,
                              .table = table.address,
                              .tokens = call.inputs[3].address,
                              .rows = shape_of(ids).rows,
                              .logits_stride = logits.stride(2),
                              .ids_stride = ids.stride(2),
                              .weights_stride = weights.stride(2),
                              .normalise = p.normalise ? 1u : 0u,
                              .groups_used = static_cast<uint32_t>(p.groups_used),
                              .group_best = static_cast<uint32_t>(p.group_best),
                              .factor = p.scale,
                              .margin = p.margin,
                              .vocabulary = table.given() ? table.size(1) : 0},
                         {ids.dim(2), 1, 1});
}

}  // namespace

const VulkanOp& moe_route_vulkan() {
  static const VulkanOp op{OpId::MoeRoute, supports, record};
  return op;
}

}  // namespace infer::vulkan
