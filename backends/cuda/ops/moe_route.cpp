#include "backends/cuda/ops/moe_route.h"

#include "backends/cuda/op.h"

namespace infer::cuda {
namespace {

constexpr int kThreads = 64;  // device/reduce.h

Status supports(const NodeView& node) {
  const int64_t experts = node.input(0)->desc.shape[0];
  if (experts <= kMostRouted) return {};
  return error(StatusCode::unsupported, "{} experts; at most {} are supported", experts,
               kMostRouted);
}

void record(const NodeCall& call) {
  const auto& p = call.params<op::MoeRoute>();
  const Operand& logits = call.inputs[0];
  const Operand& bias = call.inputs[1];
  const Operand& table = call.inputs[2];
  const Operand& ids = call.outputs[0];
  const Operand& weights = call.outputs[1];
  const int64_t floats = 2 * logits.dim(0) + p.groups + p.used;
  call.recorder.launch("moe_route",
                       MoeRouteParams{.step = call.step,
                                      .logits = logits.address,
                                      .bias = bias.given() ? bias.address : 0,
                                      .ids = ids.address,
                                      .weights = weights.address,
                                      .table = table.given() ? table.address : 0,
                                      .tokens = table.given() ? call.inputs[3].address : 0,
                                      .rows = shape_of(ids).rows,
                                      .logits_stride = logits.stride(2),
                                      .ids_stride = ids.stride(2),
                                      .weights_stride = weights.stride(2),
                                      .experts = logits.size(0),
                                      .groups = static_cast<uint32_t>(p.groups),
                                      .used = static_cast<uint32_t>(p.used),
                                      .gating = static_cast<uint32_t>(p.gating),
                                      .normalise = p.normalise ? 1u : 0u,
                                      .groups_used = static_cast<uint32_t>(p.groups_used),
                                      .group_best = static_cast<uint32_t>(p.group_best),
                                      .factor = p.scale,
                                      .margin = p.margin,
                                      .vocabulary = table.given() ? table.size(1) : 0,
                                      .unused = 0},
                       {ids.dim(2), 1, 1}, kThreads, floats * int64_t{sizeof(float)});
}

}  // namespace

const CudaOp& moe_route_cuda() {
  static const CudaOp op{OpId::MoeRoute, supports, record};
  return op;
}

}  // namespace infer::cuda
