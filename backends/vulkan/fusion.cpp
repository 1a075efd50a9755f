#include "backends/vulkan/fusion.h"

#include "backends/gpu/phases.h"
#include "backends/vulkan/matrix.h"
#include "backends/vulkan/product.h"

namespace infer::vulkan {
namespace {

/// What the shaders of products take (product.h), and that of rope and store.
class Rules final : public FusionRules {
 public:
  Rules(const Segment& segment, const Target& target)
      : graph_(*segment.graph),
        roles_(segment.roles),
        device_(target.device),
        tuning_(target.tuning) {}

  bool may_meet(const Node& node, const Node& next) const override {
    return node.unit == next.unit;
  }
  /// Every call of the norm's products computes it anew: worth it for one row.
  bool takes_norm(const Node& norm, const Node& product) const override {
    const auto& shape = result(norm).desc.shape;
    return shape[2] == 1 && product_can_norm(device_, shape[0]) && !by_matrices(product);
  }
  /// They go through one shader.
  bool joins(const Node& product, const Node& next) const override {
    return weight(product).type == weight(next).type &&
           weight(product).shape[2] == weight(next).shape[2] &&
           by_matrices(product) == by_matrices(next) && result(product).rows == result(next).rows;
  }
  /// Tiles have no registers left for a second matrix. Where generated rows go beside those of
  /// prompts they may be tiles.
  bool takes_activation(const Node& gate, const Node&, const Node&) const override {
    if (by_matrices(gate)) return roles_ == Roles::prompt;
    return !tuning_.tiles(result(gate).desc.shape[2]);
  }
  bool takes_sum(const Node&) const override { return true; }
  bool joins_rope_and_store(const Node&, const Node&, const Node&) const override { return true; }

 private:
  const Value& result(const Node& node) const { return graph_.value(node.outputs[0]); }
  const TensorDesc& weight(const Node& product) const {
    return graph_.value(product.inputs[1]).desc;
  }
  bool by_matrices(const Node& product) const {
    return uses_matrices(graph_, product, roles_, tuning_);
  }

  const Graph& graph_;
  Roles roles_;
  const PhysicalDevice& device_;
  const Tuning& tuning_;
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

}  // namespace infer::vulkan
