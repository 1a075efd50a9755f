#include "backends/cuda/fusion.h"

#include <algorithm>

#include "backends/cuda/half_product.h"
#include "backends/gpu/phases.h"

namespace infer::cuda {
namespace {

/// What the operations say that their kernels take.
class Rules final : public FusionRules {
 public:
  Rules(const Segment& segment, const Target& target)
      : graph_(*segment.graph), roles_(segment.roles), target_(target) {}

  bool may_meet(const Node& node, const Node& next) const override {
    return node.unit == next.unit;
  }
  bool takes_norm(const Node& norm, const Node& product) const override {
    return takes(product, norm.op());
  }
  bool joins(const Node& product, const Node& next) const override {
    return weight(product).type == weight(next).type &&
           weight(product).shape[2] == weight(next).shape[2] &&
           result(product).rows == result(next).rows && by_halves(product) == by_halves(next) &&
           takes(product, next.op());
  }
  /// The rarer activations are not in the kernels of products.
  bool takes_activation(const Node& gate, const Node&, const Node& glu) const override {
    return std::get<op::Glu>(glu.params).kind <= op::Glu::Kind::swiglu_oai &&
           takes(gate, OpId::Glu);
  }
  bool takes_sum(const Node& product) const override { return takes(product, OpId::Add); }
  bool joins_rope_and_store(const Node&, const Node&, const Node& store) const override {
    const CudaOp* op = target_.ops.find(store.op());
    return op != nullptr && op->record_ropes != nullptr;
  }
  bool takes_attention(const Node&, const Node& attention) const override {
    const CudaOp* op = target_.ops.find(attention.op());
    return op != nullptr && op->record_attention != nullptr && op->takes != nullptr &&
           op->takes({graph_, attention, target_.gpu}, OpId::KvStore, target_.tuning, roles_);
  }

 private:
  const Value& result(const Node& node) const { return graph_.value(node.outputs[0]); }
  const TensorDesc& weight(const Node& product) const {
    return graph_.value(product.inputs[1]).desc;
  }
  bool by_halves(const Node& product) const {
    return uses_halves({graph_, product, target_.gpu}, target_.tuning, roles_);
  }
  bool takes(const Node& product, OpId with) const {
    const CudaOp* op = target_.ops.find(product.op());
    return op != nullptr && op->takes != nullptr && op->record_products != nullptr &&
           op->takes({graph_, product, target_.gpu}, with, target_.tuning, roles_);
  }

  const Graph& graph_;
  Roles roles_;
  const Target& target_;
};

}  // namespace

std::vector<FusedCall> plan_calls(const Segment& segment, const Target& target) {
  if (!target.tuning.fuse) return fused_calls(segment, FusionRules());
  return fused_calls(segment, Rules(segment, target));
}

std::vector<NodePhase> plan_phases(const Segment& segment, const Target& target) {
  return gpu::phases_of(segment, plan_calls(segment, target),
                        [&](const Node& node) { return target.cache_use(node); });
}

int64_t scratch_bytes(const Segment& segment, const Target& target) {
  int64_t most = 0;
  for (const Node& node : segment.nodes()) {
    most = std::max(most, target.scratch_bytes(*segment.graph, node, segment.roles));
  }
  return most;
}

}  // namespace infer::cuda
