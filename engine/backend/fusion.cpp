#include "engine/backend/fusion.h"

#include <utility>

namespace infer {
namespace {

class Matcher {
 public:
  Matcher(const Segment& segment, const FusionRules& rules)
      : graph_(*segment.graph), rules_(rules), begin_(segment.begin), end_(segment.end) {
    uses_.assign(graph_.values().size(), 0);
    for (const Node& node : graph_.nodes()) {
      for (const ValueId id : node.inputs) {
        if (id != kNoValue) ++uses_[index(graph_.storage(id))];
      }
    }
    for (const ValueId id : graph_.outputs()) ++uses_[index(graph_.storage(id))];
  }

  std::vector<FusedCall> calls() {
    while (next() < end_) {
      const int32_t n = next();
      if (const int32_t products = products_of_norm(n); products > 0) {
        const int32_t end = n + 1 + products;
        for (int32_t p = n + 1; p < end; p = next()) {
          FusedCall call = match_products(p);
          call.norm = n;
          call.makes_norm = p == n + 1;
          calls_.push_back(std::move(call));
        }
      } else if (is(n, OpId::Matmul) || is(n, OpId::MoeMatmul)) {
        calls_.push_back(match_products(n));
      } else if (ropes_and_stores(n)) {
        FusedCall call{FusedCall::Kind::rope_and_store, {n, n + 1, n + 2}};
        if (attends(n)) call.attention = n + 3;
        calls_.push_back(std::move(call));
      } else {
        calls_.push_back({FusedCall::Kind::single, {n}});
      }
    }
    return std::move(calls_);
  }

 private:
  static size_t index(ValueId id) { return static_cast<size_t>(id); }
  /// The first node that no call covers.
  int32_t next() const { return calls_.empty() ? begin_ : calls_.back().end(); }
  const Node& node(int32_t n) const { return graph_.nodes()[static_cast<size_t>(n)]; }
  bool is(int32_t n, OpId op) const { return n < end_ && node(n).op() == op; }
  /// Whether n is such a node and may be in one call with the node before it.
  bool follows(int32_t n, OpId op) const {
    return is(n, op) && rules_.may_meet(node(n - 1), node(n));
  }
  ValueId result(int32_t n) const { return node(n).outputs[0]; }
  const TensorDesc& desc(ValueId id) const { return graph_.value(id).desc; }
  bool used_once(ValueId id) const { return uses_[index(graph_.storage(id))] == 1; }

  /// The number of matrix products right behind a norm if they alone use its result, which is one
  /// row a token, and every one of them can make it itself.
  int32_t products_of_norm(int32_t norm) const {
    if (!is(norm, OpId::RmsNorm)) return 0;
    const ValueId x = result(norm);
    if (desc(x).shape[1] != 1) return 0;
    int32_t met = 0;
    while (follows(norm + 1 + met, OpId::Matmul) && node(norm + 1 + met).inputs[0] == x) {
      if (!rules_.takes_norm(node(norm), node(norm + 1 + met))) return 0;
      ++met;
    }
    return met == uses_[index(x)] ? met : 0;
  }

  bool joins(int32_t first, int32_t next) const {
    if (!follows(next, node(first).op())) return false;
    const Node& a = node(first);
    const Node& b = node(next);
    if (a.inputs[0] != b.inputs[0]) return false;
    if (a.op() == OpId::MoeMatmul && a.inputs[2] != b.inputs[2]) return false;
    return rules_.joins(a, b);
  }

  FusedCall match_products(int32_t n) const {
    FusedCall call{FusedCall::Kind::products, {n}};
    while (joins(n, call.nodes.back() + 1)) call.nodes.push_back(call.nodes.back() + 1);
    const int32_t next = call.nodes.back() + 1;
    if (makes_activation(call, next)) {
      call.glu = next;
    } else if (makes_sum(call, next)) {
      call.add = next;
    } else if (call.nodes.size() > 1 && !rules_.joins_alone(node(n))) {
      call.nodes.resize(1);
    }
    return call;
  }

  bool makes_activation(const FusedCall& call, int32_t next) const {
    if (!follows(next, OpId::Glu) || call.nodes.size() != 2) return false;
    const ValueId gate = result(call.nodes[0]);
    const ValueId up = result(call.nodes[1]);
    return node(next).inputs[0] == gate && node(next).inputs[1] == up && used_once(gate) &&
           used_once(up) &&
           rules_.takes_activation(node(call.nodes[0]), node(call.nodes[1]), node(next));
  }

  bool makes_sum(const FusedCall& call, int32_t next) const {
    if (!follows(next, OpId::Add) || call.nodes.size() != 1) return false;
    const ValueId y = result(call.nodes[0]);
    const Node& sum = node(next);
    return sum.inputs[1] == y && sum.inputs[0] != y && used_once(y) &&
           desc(y).shape == desc(sum.inputs[0]).shape && rules_.takes_sum(node(call.nodes[0]));
  }

  /// The store takes the turned keys of every token, which nothing else uses, and values that are
  /// no part of what the ropes make.
  bool ropes_and_stores(int32_t n) const {
    if (!is(n, OpId::Rope) || !follows(n + 1, OpId::Rope) || !follows(n + 2, OpId::KvStore)) {
      return false;
    }
    const Node& queries = node(n);
    const Node& keys = node(n + 1);
    const Node& store = node(n + 2);
    const auto style = [](const Node& rope) { return std::get<op::Rope>(rope.params).style; };
    return style(queries) == style(keys) && queries.inputs[1] == keys.inputs[1] &&
           graph_.kv().layers[static_cast<size_t>(cache_layer(store))].tokens == 1 &&
           store.inputs[0] == result(n + 1) && used_once(result(n + 1)) &&
           keys.inputs[0] != result(n) && graph_.storage(store.inputs[1]) != result(n) &&
           graph_.storage(store.inputs[1]) != result(n + 1) &&
           rules_.joins_rope_and_store(queries, keys, store);
  }

  /// Of ropes and a store that begin with node n: whether the attention that follows is that of the
  /// tokens that are stored, and alone uses the queries.
  bool attends(int32_t n) const {
    if (!follows(n + 3, OpId::Attention)) return false;
    const Node& store = node(n + 2);
    const Node& attention = node(n + 3);
    return attention.inputs[0] == result(n) && used_once(result(n)) &&
           attention.inputs[1] == store.inputs[2] && attention.inputs[2] == store.inputs[3] &&
           attention.inputs[4] == kNoValue &&
           std::get<op::Attention>(attention.params).kv_layer ==
               std::get<op::KvStore>(store.params).kv_layer &&
           rules_.takes_attention(store, attention);
  }

  const Graph& graph_;
  const FusionRules& rules_;
  int32_t begin_, end_;
  std::vector<int32_t> uses_;  ///< of a value and its views: by nodes, and as a result of the graph
  std::vector<FusedCall> calls_;
};

}  // namespace

bool FusionRules::may_meet(const Node&, const Node&) const { return true; }
bool FusionRules::takes_norm(const Node&, const Node&) const { return false; }
bool FusionRules::joins(const Node&, const Node&) const { return false; }
bool FusionRules::joins_alone(const Node&) const { return true; }
bool FusionRules::takes_activation(const Node&, const Node&, const Node&) const { return false; }
bool FusionRules::takes_sum(const Node&) const { return false; }
bool FusionRules::joins_rope_and_store(const Node&, const Node&, const Node&) const {
  return false;
}
bool FusionRules::takes_attention(const Node&, const Node&) const { return false; }

bool FusedCall::stores(int32_t node) const {
  if (node == norm) return false;
  if (glu >= 0 || add >= 0 || attention >= 0) return node == end() - 1;
  return kind != Kind::rope_and_store || node != nodes[1];  // the keys go to the cache alone
}

std::vector<FusedCall> fused_calls(const Segment& segment, const FusionRules& rules) {
  return Matcher(segment, rules).calls();
}

}  // namespace infer
