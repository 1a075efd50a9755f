#include "backends/cpu/fusion.h"

#include <utility>

#include "backends/cpu/product.h"

namespace infer::cpu {
namespace {

/// What the kernels of products take (product.h).
class Rules final : public FusionRules {
 public:
  Rules(const Graph& graph, const CpuContext& context) : graph_(graph), context_(context) {}

  /// The norm goes into the panels that the activations are rounded to.
  bool takes_norm(const Node&, const Node& product) const override { return quantised(product); }
  /// The activations are in one form for all.
  bool joins(const Node& product, const Node& next) const override {
    return quantised(product) == quantised(next);
  }
  /// Experts gather their activations anew for each product.
  bool joins_alone(const Node& product) const override { return product.op() == OpId::Matmul; }
  bool takes_activation(const Node& gate, const Node& up, const Node&) const override {
    return choose(gate).layout.rows == choose(up).layout.rows;
  }
  bool takes_sum(const Node& product) const override { return product.op() == OpId::Matmul; }

 private:
  Product choose(const Node& product) const {
    return Product::choose(context_, graph_.value(product.inputs[1]).desc);
  }
  bool quantised(const Node& product) const { return choose(product).quantised(); }

  const Graph& graph_;
  const CpuContext& context_;
};

/// Places the barriers between calls.
class Planner {
 public:
  Planner(const Segment& segment, const CpuContext& context)
      : graph_(*segment.graph), ops_(*context.ops) {
    for (FusedCall& call : fused_calls(segment, Rules(graph_, context))) {
      phases_.push_back({std::move(call)});
    }
  }

  std::vector<Phase> plan() {
    place_barriers();
    return std::move(phases_);
  }

 private:
  static size_t index(ValueId id) { return static_cast<size_t>(id); }
  /// The first of what a phase computes, a fused norm aside.
  const Node& first_node(const Phase& phase) const {
    return graph_.nodes()[static_cast<size_t>(phase.call.nodes[0])];
  }

  /// Which thread makes which part of a value. A view of a value made by rows has that value's
  /// heads as well (GraphBuilder splits and merges whole rows of one head only), so equal parts
  /// mean that a thread finds what it made itself.
  struct Part {
    Sharing sharing = Sharing::whole;
    Rows rows = Rows::tokens;
    int64_t d0 = 0;
    int64_t d1 = 0;
    bool operator==(const Part&) const = default;
  };

  Part part_of(const Phase& phase) const {
    const Node& n = first_node(phase);
    const CpuOp* op = ops_.find(n.op());
    const Sharing sharing = op == nullptr ? Sharing::whole : op->sharing;
    if (sharing == Sharing::whole || phase.call.nodes.size() > 1) return {};
    const Value& value = graph_.value(n.outputs.empty() ? n.inputs[0] : n.outputs[0]);
    const auto& shape = value.desc.shape;
    return {sharing, value.rows, sharing == Sharing::stretches ? shape[0] : 0, shape[1]};
  }

  /// A barrier before a phase that needs what another thread may have made since the last one.
  void place_barriers() {
    constexpr int32_t kBefore = -1;
    std::vector<int32_t> maker(graph_.values().size(), kBefore);
    std::vector<Part> parts;
    for (const Phase& phase : phases_) parts.push_back(part_of(phase));
    int32_t last_barrier = 0;
    for (int32_t p = 0; p < static_cast<int32_t>(phases_.size()); ++p) {
      Phase& phase = phases_[static_cast<size_t>(p)];
      const Part& part = parts[static_cast<size_t>(p)];
      if (p > 0) {
        phase.barrier = part.sharing == Sharing::whole ||
                        parts[static_cast<size_t>(p - 1)].sharing == Sharing::whole;
        for (const ValueId id : first_node(phase).inputs) {
          if (id == kNoValue) continue;
          const int32_t made = maker[index(graph_.storage(id))];
          if (made >= last_barrier && parts[static_cast<size_t>(made)] != part) {
            phase.barrier = true;
          }
        }
      }
      if (phase.barrier) last_barrier = p;
      for (const ValueId id : first_node(phase).outputs) maker[index(id)] = p;
    }
  }

  const Graph& graph_;
  const OpTable<CpuOp>& ops_;
  std::vector<Phase> phases_;
};

}  // namespace

std::vector<Phase> plan_phases(const Segment& segment, const CpuContext& context) {
  return Planner(segment, context).plan();
}

}  // namespace infer::cpu
