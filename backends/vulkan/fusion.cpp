#include "backends/vulkan/fusion.h"

#include <algorithm>
#include <set>

#include "backends/vulkan/matrix.h"
#include "backends/vulkan/product.h"

namespace infer::vulkan {
namespace {

class Planner {
 public:
  Planner(const Segment& segment, const PhysicalDevice& device, const Tuning& tuning)
      : graph_(*segment.graph),
        device_(device),
        tuning_(tuning),
        roles_(segment.roles),
        begin_(segment.begin),
        end_(segment.end) {
    uses_.assign(graph_.values().size(), 0);
    for (const Node& node : graph_.nodes()) {
      for (const ValueId id : node.inputs) {
        if (id != kNoValue) ++uses_[index(graph_.storage(id))];
      }
    }
    for (const ValueId id : graph_.outputs()) ++uses_[index(graph_.storage(id))];
  }

  std::vector<Call> plan() {
    for (int32_t n = begin_; n < end_;) {
      if (!tuning_.fuse) {
        add({{n}});
      } else if (const int32_t products = products_of_norm(n); products > 0) {
        const int32_t end = n + 1 + products;
        bool first = true;
        for (int32_t p = n + 1; p < end; p = next_) {
          Call call = match_products(p);
          call.norm = n;
          call.makes_norm = std::exchange(first, false);
          add(std::move(call));
        }
      } else if (is(n, OpId::Matmul) || is(n, OpId::MoeMatmul)) {
        add(match_products(n));
      } else if (ropes_and_stores(n)) {
        add({{n, n + 1, n + 2}, true});
      } else {
        add({{n}});
      }
      n = next_;
    }
    return std::move(calls_);
  }

 private:
  static size_t index(ValueId id) { return static_cast<size_t>(id); }
  const Node& node(int32_t n) const { return graph_.nodes()[static_cast<size_t>(n)]; }
  /// In the same unit as the node before it, where that is part of the segment.
  bool follows(int32_t n, OpId op) const {
    return is(n, op) && n > begin_ && node(n).unit == node(n - 1).unit;
  }
  bool is(int32_t n, OpId op) const { return n < end_ && node(n).op() == op; }
  ValueId result(int32_t n) const { return node(n).outputs[0]; }
  const TensorDesc& desc(ValueId id) const { return graph_.value(id).desc; }
  const TensorDesc& weight(int32_t n) const { return desc(node(n).inputs[1]); }
  bool used_once(ValueId id) const { return uses_[index(graph_.storage(id))] == 1; }

  bool by_matrices(int32_t n) const { return uses_matrices(graph_, node(n), roles_, tuning_); }

  void add(Call call) {
    next_ = call.covered().back() + 1;
    calls_.push_back(std::move(call));
  }

  /// The matrix products right behind a norm if they alone use its result and can compute it on
  /// their own: of one row, or each would do so for many.
  int32_t products_of_norm(int32_t norm) const {
    if (!is(norm, OpId::RmsNorm)) return 0;
    const ValueId x = result(norm);
    const auto& shape = desc(x).shape;
    if (shape[1] != 1 || shape[2] != 1 || !product_can_norm(device_, shape[0])) return 0;
    int32_t met = 0;
    while (follows(norm + 1 + met, OpId::Matmul) && node(norm + 1 + met).inputs[0] == x) {
      if (by_matrices(norm + 1 + met)) return 0;
      ++met;
    }
    return met == uses_[index(x)] ? met : 0;
  }

  /// Products with the same activations through the same shader, and for the same experts.
  bool joins(int32_t first, int32_t next) const {
    if (!follows(next, node(first).op())) return false;
    const Node& a = node(first);
    const Node& b = node(next);
    if (a.op() == OpId::MoeMatmul && a.inputs[2] != b.inputs[2]) return false;
    return a.inputs[0] == b.inputs[0] && weight(first).type == weight(next).type &&
           weight(first).shape[2] == weight(next).shape[2] &&
           by_matrices(first) == by_matrices(next) &&
           graph_.value(result(first)).rows == graph_.value(result(next)).rows;
  }

  Call match_products(int32_t n) const {
    Call call{{n}};
    while (joins(n, call.nodes.back() + 1)) call.nodes.push_back(call.nodes.back() + 1);
    const int32_t next = call.nodes.back() + 1;
    if (makes_activation(call, next)) call.glu = next;
    if (makes_sum(call, next)) call.add = next;
    return call;
  }

  bool makes_activation(const Call& call, int32_t next) const {
    if (!follows(next, OpId::Glu) || call.nodes.size() != 2) return false;
    const ValueId gate = result(call.nodes[0]);
    const ValueId up = result(call.nodes[1]);
    // Tiles have no registers left for a second matrix.
    if (tuning_.tiles(desc(gate).shape[2]) || by_matrices(call.nodes[0])) return false;
    return node(next).inputs[0] == gate && node(next).inputs[1] == up && used_once(gate) &&
           used_once(up) && desc(gate).shape == desc(up).shape;
  }

  bool makes_sum(const Call& call, int32_t next) const {
    if (!follows(next, OpId::Add) || call.nodes.size() != 1) return false;
    const ValueId y = result(call.nodes[0]);
    const Node& sum = node(next);
    return sum.inputs[1] == y && sum.inputs[0] != y && used_once(y) &&
           desc(y).shape == desc(sum.inputs[0]).shape;
  }

  /// rope of queries, rope of keys, store of those keys and of values that are no part of them.
  bool ropes_and_stores(int32_t n) const {
    if (!is(n, OpId::Rope) || !follows(n + 1, OpId::Rope) || !follows(n + 2, OpId::KvStore)) {
      return false;
    }
    const Node& queries = node(n);
    const Node& keys = node(n + 1);
    const Node& store = node(n + 2);
    const auto style = [](const Node& rope) { return std::get<op::Rope>(rope.params).style; };
    return style(queries) == style(keys) && queries.inputs[1] == keys.inputs[1] &&
           store.inputs[0] == result(n + 1) && used_once(result(n + 1)) &&
           keys.inputs[0] != result(n) && graph_.storage(store.inputs[1]) != result(n) &&
           graph_.storage(store.inputs[1]) != result(n + 1);
  }

  const Graph& graph_;
  const PhysicalDevice& device_;
  const Tuning& tuning_;
  Roles roles_;
  int32_t begin_, end_;
  int32_t next_ = 0;  ///< behind the nodes of the last call
  std::vector<int32_t> uses_;
  std::vector<Call> calls_;
};

}  // namespace

std::vector<int32_t> Call::covered() const {
  std::vector<int32_t> all;
  if (makes_norm) all.push_back(norm);
  all.insert(all.end(), nodes.begin(), nodes.end());
  if (glu >= 0) all.push_back(glu);
  if (add >= 0) all.push_back(add);
  return all;
}

bool Call::stores(int32_t n) const {
  if (n == norm) return false;
  if (glu >= 0 || add >= 0) return n == glu || n == add;
  return !ropes || n != nodes[1];  // the keys go to the cache alone
}

std::vector<Call> plan_calls(const Segment& segment, const PhysicalDevice& device,
                             const Tuning& tuning) {
  return Planner(segment, device, tuning).plan();
}

int32_t cache_layer(const Node& node) {
  if (const auto* store = std::get_if<op::KvStore>(&node.params)) return store->kv_layer;
  if (const auto* attention = std::get_if<op::Attention>(&node.params)) return attention->kv_layer;
  return -1;
}

std::vector<NodePhase> plan_phases(const Segment& segment, const PhysicalDevice& device,
                                   const Tuning& tuning) {
  const Graph& graph = *segment.graph;
  std::vector<NodePhase> phases(segment.nodes().size());
  std::set<ValueId> made;    // in the running phase
  std::set<int32_t> stored;  // layers whose cache it writes
  int32_t current = 0;
  for (const Call& call : plan_calls(segment, device, tuning)) {
    std::vector<int32_t> nodes = call.covered();
    if (call.norm >= 0 && !call.makes_norm) nodes.push_back(call.norm);
    std::set<ValueId> own;
    std::set<int32_t> own_stored;
    bool waits = false;
    for (const int32_t n : nodes) {
      for (const ValueId id : graph.nodes()[static_cast<size_t>(n)].outputs) own.insert(id);
    }
    for (const int32_t n : nodes) {
      const Node& node = graph.nodes()[static_cast<size_t>(n)];
      for (const ValueId id : node.inputs) {
        if (id == kNoValue || own.contains(graph.storage(id))) continue;
        waits = waits || made.contains(graph.storage(id));
      }
      const int32_t layer = cache_layer(node);
      if (layer < 0) continue;
      waits = waits || stored.contains(layer);
      if (node.op() == OpId::KvStore) own_stored.insert(layer);
    }
    if (waits) {
      ++current;
      made.clear();
      stored.clear();
    }
    made.merge(own);
    stored.merge(own_stored);
    for (const int32_t n : call.covered()) {
      phases[static_cast<size_t>(n - segment.begin)] = {current, call.stores(n)};
    }
  }
  return phases;
}

}  // namespace infer::vulkan
