#include "backends/cpu/fusion.h"

#include "backends/cpu/product.h"

namespace infer::cpu {
namespace {

class Planner {
 public:
  Planner(const Segment& segment, const CpuContext& context)
      : graph_(*segment.graph), context_(context), begin_(segment.begin), end_(segment.end) {
    uses_.assign(graph_.values().size(), 0);
    for (const Node& node : graph_.nodes()) {
      for (const ValueId id : node.inputs) {
        if (id != kNoValue) ++uses_[index(graph_.storage(id))];
      }
    }
    for (const ValueId id : graph_.outputs()) ++uses_[index(graph_.storage(id))];
  }

  std::vector<Phase> plan() {
    for (int32_t n = begin_; n < end_; n = phases_.back().last() + 1) {
      phases_.push_back(match(n));
    }
    place_barriers();
    return std::move(phases_);
  }

 private:
  static size_t index(ValueId id) { return static_cast<size_t>(id); }
  const Node& node(int32_t n) const { return graph_.nodes()[static_cast<size_t>(n)]; }
  bool is(int32_t n, OpId op) const { return n < end_ && node(n).op() == op; }
  ValueId result(int32_t n) const { return node(n).outputs[0]; }
  Product product(int32_t n) const {
    return Product::choose(context_, graph_.value(node(n).inputs[1]).desc);
  }

  /// Products with the same activations, in the same form, and for the same experts.
  bool joins(int32_t first, int32_t next) const {
    if (!is(next, node(first).op()) || node(first).op() == OpId::HeadMatmul) return false;
    const Node& a = node(first);
    const Node& b = node(next);
    if (a.inputs[0] != b.inputs[0]) return false;
    if (a.op() == OpId::MoeMatmul && a.inputs[2] != b.inputs[2]) return false;
    return product(first).quantised() == product(next).quantised();
  }

  Phase match(int32_t n) const {
    Phase phase;
    if (is(n, OpId::RmsNorm) && is(n + 1, OpId::Matmul) && feeds_only_products(n)) {
      phase.norm = n++;
    }
    phase.nodes.push_back(n);
    if (!is(n, OpId::Matmul) && !is(n, OpId::MoeMatmul)) return phase;
    while (joins(n, phase.nodes.back() + 1)) phase.nodes.push_back(phase.nodes.back() + 1);
    const int32_t next = phase.nodes.back() + 1;
    if (makes_activation(phase, next)) {
      phase.glu = next;
    } else if (node(n).op() == OpId::MoeMatmul) {
      phase.nodes.resize(1);  // nothing is gained by joining: the activations are gathered anew
    } else if (makes_sum(phase, next)) {
      phase.add = next;
    }
    return phase;
  }

  /// The norm's result is one row a token and goes to the products right behind it alone.
  bool feeds_only_products(int32_t norm) const {
    const ValueId x = result(norm);
    if (graph_.value(x).desc.shape[1] != 1) return false;
    int32_t met = 0;
    for (int32_t n = norm + 1; is(n, OpId::Matmul) && node(n).inputs[0] == x; ++n) {
      if (!product(n).quantised()) return false;
      ++met;
    }
    return met > 0 && met == uses_[index(x)];
  }

  bool makes_activation(const Phase& phase, int32_t next) const {
    if (!is(next, OpId::Glu) || phase.nodes.size() != 2) return false;
    const ValueId gate = result(phase.nodes[0]);
    const ValueId up = result(phase.nodes[1]);
    const Product a = product(phase.nodes[0]);
    const Product b = product(phase.nodes[1]);
    return node(next).inputs[0] == gate && node(next).inputs[1] == up && used_once(gate) &&
           used_once(up) && a.layout.rows == b.layout.rows;
  }

  bool makes_sum(const Phase& phase, int32_t next) const {
    if (!is(next, OpId::Add) || phase.nodes.size() != 1) return false;
    const ValueId y = result(phase.nodes[0]);
    const Node& sum = node(next);
    return sum.inputs[1] == y && sum.inputs[0] != y && used_once(y) &&
           graph_.value(y).desc.shape == graph_.value(sum.inputs[0]).desc.shape;
  }

  bool used_once(ValueId id) const { return uses_[index(graph_.storage(id))] == 1; }

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
    const Node& n = node(phase.nodes[0]);
    const Sharing sharing = cpu_op(n.op()).sharing;
    if (sharing == Sharing::whole || phase.nodes.size() > 1) return {};
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
        for (const ValueId id : node(phase.nodes[0]).inputs) {
          if (id == kNoValue) continue;
          const int32_t made = maker[index(graph_.storage(id))];
          if (made >= last_barrier && parts[static_cast<size_t>(made)] != part) {
            phase.barrier = true;
          }
        }
      }
      if (phase.barrier) last_barrier = p;
      for (const ValueId id : node(phase.nodes[0]).outputs) maker[index(id)] = p;
    }
  }

  const Graph& graph_;
  const CpuContext& context_;
  int32_t begin_, end_;
  std::vector<int32_t> uses_;
  std::vector<Phase> phases_;
};

}  // namespace

std::vector<Phase> plan_phases(const Segment& segment, const CpuContext& context) {
  return Planner(segment, context).plan();
}

}  // namespace infer::cpu
