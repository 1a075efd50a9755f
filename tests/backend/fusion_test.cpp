// Which nodes become one call: every pattern, and every condition that refuses it.
#include "engine/backend/fusion.h"

#include <doctest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "engine/ops/op.h"

namespace infer {
namespace {

/// Takes what a test does not refuse.
struct TestRules final : FusionRules {
  std::function<bool(const Node&, const Node&)> meet = [](const Node&, const Node&) {
    return true;
  };
  std::function<bool(const Node&)> norm = [](const Node&) { return true; };
  std::function<bool(const Node&, const Node&)> join = [](const Node&, const Node&) {
    return true;
  };
  bool alone = true;
  bool activation = true;
  bool sum = true;
  bool rope_and_store = true;
  bool attention = true;

  bool may_meet(const Node& node, const Node& next) const override { return meet(node, next); }
  bool takes_norm(const Node&, const Node& product) const override { return norm(product); }
  bool joins(const Node& product, const Node& next) const override { return join(product, next); }
  bool joins_alone(const Node&) const override { return alone; }
  bool takes_activation(const Node&, const Node&, const Node&) const override { return activation; }
  bool takes_sum(const Node&) const override { return sum; }
  bool joins_rope_and_store(const Node&, const Node&, const Node&) const override {
    return rope_and_store;
  }
  bool takes_attention(const Node&, const Node&) const override { return attention; }
};

constexpr int64_t kWidth = 32;

/// Builds graphs of random parts: what is computed does not matter here.
class Builder {
 public:
  Builder() : g(infer_outputs, 4, 4, kv()) {}

  ValueId data(int64_t d0, int64_t d1 = 1) {
    return g.data_input(inputs_++, tensor(DType::f32, d0, d1, 4), Rows::tokens);
  }
  ValueId weight(int64_t d0, int64_t d1 = 1, int64_t d2 = 1, DType type = DType::f32) {
    return g.weight(weights_++, tensor(type, d0, d1, d2));
  }
  ValueId ids() { return g.data_input(inputs_++, tensor(DType::i32, 2, 1, 4), Rows::tokens); }
  ValueId norm(ValueId x) { return g.add(op::RmsNorm{}, {x, kNoValue}); }
  ValueId matmul(ValueId x, DType type = DType::f32, int64_t n = kWidth) {
    return g.add(op::Matmul{},
                 {x, weight(g.value(x).desc.shape[0], n, 1, type), kNoValue, kNoValue});
  }
  ValueId experts(ValueId x, ValueId ids) {
    return g.add(op::MoeMatmul{}, {x, weight(kWidth, kWidth, 4), ids, kNoValue, kNoValue});
  }
  ValueId rope(ValueId x, op::Rope::Style style = {}, int32_t table = 0) {
    return g.add(op::Rope{style}, {x, g.input(StepInput::rope_table, table, 8)});
  }
  void store(ValueId k, ValueId v) {
    g.add_all(op::KvStore{0}, {k, v, g.input(StepInput::slots), g.input(StepInput::sequences)});
  }
  ValueId attend(ValueId q, int32_t layer = 0) {
    op::Attention attention;
    attention.kv_layer = layer;
    return g.add(attention, {q, g.input(StepInput::slots), g.input(StepInput::sequences), kNoValue,
                             kNoValue, kNoValue});
  }
  Graph finish(std::vector<ValueId> outputs) {
    for (const ValueId id : outputs) g.output(id);
    Result<Graph> graph = g.finish();
    REQUIRE_MESSAGE(graph.has_value(), graph.error().message());
    return *std::move(graph);
  }

  GraphBuilder g;

 private:
  static KvGeometry kv() {
    KvGeometry geometry;
    geometry.layers.push_back({1, 16, 16});
    geometry.layers.push_back({1, 16, 16});
    return geometry;
  }
  int32_t inputs_ = 0;
  int32_t weights_ = 0;
};

/// Calls in short: the covered nodes of each, "n" before those that normalise anew, in brackets the
/// nodes whose results are not stored.
std::string calls_of(const Graph& graph, const FusionRules& rules, int32_t begin = 0,
                     int32_t end = -1) {
  const auto nodes = static_cast<int32_t>(graph.nodes().size());
  std::string text;
  int32_t next = begin;
  for (const FusedCall& call : fused_calls({&graph, begin, end < 0 ? nodes : end}, rules)) {
    CHECK(call.begin() == next);  // in order, each node once
    next = call.end();
    text += text.empty() ? "" : " | ";
    if (call.norm >= 0 && !call.makes_norm) text += "n ";
    for (int32_t n = call.begin(); n < call.end(); ++n) {
      text += n == call.begin() ? "" : " ";
      const std::string number = std::to_string(n);
      text += call.stores(n) ? number : '(' + number + ')';
    }
    CHECK(call.fused() == (call.norm >= 0 || call.end() - call.begin() > 1));
  }
  CHECK(next == (end < 0 ? nodes : end));
  return text;
}

/// norm, three products with its result.
struct Attention {
  Builder b;
  ValueId x = b.data(kWidth);
  ValueId h = b.norm(x);
  std::vector<ValueId> made{b.matmul(h), b.matmul(h, DType::f16), b.matmul(h)};
};

TEST_CASE("fusion: without rules every node is a call") {
  Attention a;
  const Graph graph = a.b.finish(a.made);
  CHECK(calls_of(graph, FusionRules()) == "0 | 1 | 2 | 3");
}

TEST_CASE("fusion: a norm and the products with its result") {
  Attention a;
  const Graph graph = a.b.finish(a.made);
  TestRules rules;
  CHECK(calls_of(graph, rules) == "(0) 1 2 3");
  SUBCASE("joined by type: every call normalises anew") {
    rules.join = [&](const Node& p, const Node& next) {
      return graph.value(p.inputs[1]).desc.type == graph.value(next.inputs[1]).desc.type;
    };
    CHECK(calls_of(graph, rules) == "(0) 1 | n 2 | n 3");
  }
  SUBCASE("one product cannot normalise") {
    rules.norm = [&](const Node& p) { return graph.value(p.inputs[1]).desc.type == DType::f32; };
    CHECK(calls_of(graph, rules) == "0 | 1 2 3");
  }
  SUBCASE("they may not meet") {
    rules.meet = [](const Node& node, const Node&) { return node.op() != OpId::RmsNorm; };
    CHECK(calls_of(graph, rules) == "0 | 1 2 3");
  }
  SUBCASE("nothing joins, no norm") {
    rules.join = [](const Node&, const Node&) { return false; };
    rules.norm = [](const Node&) { return false; };
    CHECK(calls_of(graph, rules) == "0 | 1 | 2 | 3");
  }
  SUBCASE("the segment ends between them: the others use the norm's result as well") {
    CHECK(calls_of(graph, rules, 0, 3) == "0 | 1 2");
    CHECK(calls_of(graph, rules, 1) == "1 2 3");
  }
}

TEST_CASE("fusion: a norm whose result something else uses, or of several heads, stands alone") {
  const TestRules rules;
  SUBCASE("a later node") {
    Attention a;
    a.made.push_back(a.b.g.add(op::Add{}, {a.x, a.h}));
    CHECK(calls_of(a.b.finish(a.made), rules) == "0 | 1 2 3 | 4");
  }
  SUBCASE("the graph's result") {
    Attention a;
    a.made.push_back(a.h);
    CHECK(calls_of(a.b.finish(a.made), rules) == "0 | 1 2 3");
  }
  SUBCASE("no product right behind it") {
    Builder b;
    const ValueId h = b.norm(b.data(kWidth));
    const ValueId other = b.norm(b.data(kWidth));
    CHECK(calls_of(b.finish({b.matmul(h), b.matmul(other)}), rules) == "0 | 1 | 2 | 3");
  }
  SUBCASE("several heads") {
    Builder b;
    const ValueId h = b.norm(b.data(16, 2));
    const ValueId merged = b.g.merge_heads(h);
    CHECK(calls_of(b.finish({b.matmul(merged)}), rules) == "0 | 1");
  }
  SUBCASE("a view of its result is used as well") {
    Builder b;
    const ValueId h = b.norm(b.data(kWidth));
    const ValueId y = b.matmul(h);
    const ValueId part = b.g.slice(h, 0, 16);
    CHECK(calls_of(b.finish({y, b.matmul(part)}), rules) == "0 | 1 | 2");
  }
}

TEST_CASE("fusion: products join only with the same activations and experts") {
  const TestRules rules;
  Builder b;
  const ValueId x = b.data(kWidth);
  const ValueId z = b.data(kWidth);
  const ValueId some = b.ids();
  const ValueId others = b.ids();
  const std::vector<ValueId> made{b.matmul(x), b.matmul(z), b.experts(z, some),
                                  b.experts(z, others), b.experts(z, some)};
  CHECK(calls_of(b.finish(made), rules) == "0 | 1 | 2 | 3 | 4");
}

/// gate and up of dense or chosen matrices, their activation.
struct Gated {
  explicit Gated(bool moe = false) {
    const ValueId x = b.data(kWidth);
    const ValueId chosen = b.ids();
    gate = moe ? b.experts(x, chosen) : b.matmul(x);
    up = moe ? b.experts(x, chosen) : b.matmul(x);
  }
  ValueId activation(bool turned = false) {
    return b.g.add(op::Glu{}, {turned ? up : gate, turned ? gate : up});
  }
  Builder b;
  ValueId gate, up;
};

TEST_CASE("fusion: gate, up and their activation") {
  TestRules rules;
  for (const bool moe : {false, true}) {
    CAPTURE(moe);
    Gated g(moe);
    const Graph graph = g.b.finish({g.activation()});
    CHECK(calls_of(graph, rules) == "(0) (1) 2");
    rules.activation = false;
    CHECK(calls_of(graph, rules) == "0 1 | 2");
    rules.alone = false;  // joining them was for the activation
    CHECK(calls_of(graph, rules) == "0 | 1 | 2");
    rules = {};
    rules.join = [](const Node&, const Node&) { return false; };
    CHECK(calls_of(graph, rules) == "0 | 1 | 2");
    rules = {};
    rules.meet = [](const Node&, const Node& next) { return next.op() != OpId::Glu; };
    CHECK(calls_of(graph, rules) == "0 1 | 2");
    rules = {};
    CHECK(calls_of(graph, rules, 0, 2) == "0 1");  // the segment ends before it
  }
}

TEST_CASE("fusion: an activation of anything else stands alone") {
  const TestRules rules;
  SUBCASE("the other way round") {
    Gated g;
    CHECK(calls_of(g.b.finish({g.activation(true)}), rules) == "0 1 | 2");
  }
  SUBCASE("the gate is used again") {
    Gated g;
    const ValueId y = g.activation();
    CHECK(calls_of(g.b.finish({y, g.b.norm(g.gate)}), rules) == "0 1 | 2 | 3");
  }
  SUBCASE("the up product is a result") {
    Gated g;
    CHECK(calls_of(g.b.finish({g.activation(), g.up}), rules) == "0 1 | 2");
  }
  SUBCASE("three products") {
    Builder b;
    const ValueId x = b.data(kWidth);
    const ValueId gate = b.matmul(x);
    const ValueId up = b.matmul(x);
    const ValueId third = b.matmul(x);
    CHECK(calls_of(b.finish({third, b.g.add(op::Glu{}, {gate, up})}), rules) == "0 1 2 | 3");
  }
}

TEST_CASE("fusion: a product's sum with a residual") {
  TestRules rules;
  Builder b;
  const ValueId residual = b.data(kWidth);
  const ValueId y = b.matmul(b.data(kWidth));
  const auto add = [&](ValueId first, ValueId second) {
    return b.g.add(op::Add{}, {first, second});
  };
  SUBCASE("is part of the call") {
    const Graph graph = b.finish({add(residual, y)});
    CHECK(calls_of(graph, rules) == "(0) 1");
    rules.sum = false;
    CHECK(calls_of(graph, rules) == "0 | 1");
    rules = {};
    rules.meet = [](const Node&, const Node&) { return false; };
    CHECK(calls_of(graph, rules) == "0 | 1");
  }
  SUBCASE("not if the product comes first") {
    CHECK(calls_of(b.finish({add(y, residual)}), rules) == "0 | 1");
  }
  SUBCASE("not with itself") { CHECK(calls_of(b.finish({add(y, y)}), rules) == "0 | 1"); }
  SUBCASE("not if the product is used again") {
    CHECK(calls_of(b.finish({add(residual, y), y}), rules) == "0 | 1");
  }
  SUBCASE("not if two products are joined") {
    const ValueId x = b.data(kWidth);
    b.matmul(x);
    const ValueId z = b.matmul(x);
    CHECK(calls_of(b.finish({y, add(residual, z)}), rules) == "0 | 1 2 | 3");
  }
}

TEST_CASE("fusion: a norm, a product and a sum in one") {
  const TestRules rules;
  Builder b;
  const ValueId residual = b.data(kWidth);
  const ValueId y = b.matmul(b.norm(b.data(kWidth)));
  CHECK(calls_of(b.finish({b.g.add(op::Add{}, {residual, y})}), rules) == "(0) (1) 2");
}

/// Queries, keys and values of two heads and one.
struct Stored {
  Builder b;
  ValueId q = b.data(16, 2);
  ValueId k = b.data(16, 1);
  ValueId v = b.data(16, 1);
};

TEST_CASE("fusion: ropes of queries and keys and their store") {
  TestRules rules;
  Stored s;
  SUBCASE("are one call, and the keys are stored in the cache alone") {
    const ValueId q = s.b.rope(s.q);
    s.b.store(s.b.rope(s.k), s.v);
    const Graph graph = s.b.finish({q});
    CHECK(calls_of(graph, rules) == "0 (1) 2");
    CHECK(calls_of(graph, rules, 0, 2) == "0 | 1");
    rules.rope_and_store = false;
    CHECK(calls_of(graph, rules) == "0 | 1 | 2");
    rules = {};
    rules.meet = [](const Node&, const Node& next) { return next.op() != OpId::KvStore; };
    CHECK(calls_of(graph, rules) == "0 | 1 | 2");
  }
  SUBCASE("not if the keys are used again") {
    const ValueId q = s.b.rope(s.q);
    const ValueId k = s.b.rope(s.k);
    s.b.store(k, s.v);
    CHECK(calls_of(s.b.finish({q, k}), rules) == "0 | 1 | 2");
  }
  SUBCASE("not in different styles") {
    const ValueId q = s.b.rope(s.q);
    s.b.store(s.b.rope(s.k, op::Rope::Style::half_split), s.v);
    CHECK(calls_of(s.b.finish({q}), rules) == "0 | 1 | 2");
  }
  SUBCASE("not with different tables") {
    const ValueId q = s.b.rope(s.q);
    s.b.store(s.b.rope(s.k, {}, 1), s.v);
    CHECK(calls_of(s.b.finish({q}), rules) == "0 | 1 | 2");
  }
  SUBCASE("not if the keys are turned queries") {
    const ValueId q = s.b.rope(s.k);
    s.b.store(s.b.rope(q), s.v);
    CHECK(calls_of(s.b.finish({q}), rules) == "0 | 1 | 2");
  }
  SUBCASE("not if other keys are stored") {
    const ValueId q = s.b.rope(s.q);
    const ValueId k = s.b.rope(s.k);
    s.b.store(s.v, s.v);
    CHECK(calls_of(s.b.finish({q, k}), rules) == "0 | 1 | 2");
  }
  SUBCASE("not if the values are part of turned queries") {
    const ValueId q = s.b.rope(s.k);
    s.b.store(s.b.rope(s.v), q);
    CHECK(calls_of(s.b.finish({q}), rules) == "0 | 1 | 2");
  }
  SUBCASE("not if the values are the turned keys") {
    const ValueId q = s.b.rope(s.q);
    const ValueId k = s.b.rope(s.k);
    s.b.store(k, k);
    CHECK(calls_of(s.b.finish({q}), rules) == "0 | 1 | 2");
  }
}

TEST_CASE("fusion: ropes, their store and the attention of the queries") {
  TestRules rules;
  Stored s;
  const ValueId q = s.b.rope(s.q);
  s.b.store(s.b.rope(s.k), s.v);
  SUBCASE("are one call, of which the attention alone is stored") {
    const Graph graph = s.b.finish({s.b.attend(q)});
    CHECK(calls_of(graph, rules) == "(0) (1) (2) 3");
    CHECK(calls_of(graph, rules, 0, 3) == "0 (1) 2");
    rules.attention = false;
    CHECK(calls_of(graph, rules) == "0 (1) 2 | 3");
  }
  SUBCASE("not if the queries are used again") {
    const ValueId y = s.b.attend(q);
    CHECK(calls_of(s.b.finish({y, q}), rules) == "0 (1) 2 | 3");
  }
  SUBCASE("not if it is that of other queries") {
    const ValueId y = s.b.attend(s.q);
    CHECK(calls_of(s.b.finish({y, q}), rules) == "0 (1) 2 | 3");
  }
  SUBCASE("not if it is that of another layer") {
    CHECK(calls_of(s.b.finish({s.b.attend(q, 1)}), rules) == "0 (1) 2 | 3");
  }
}

}  // namespace
}  // namespace infer
