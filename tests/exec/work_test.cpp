// What a step has to read and multiply, against figures worked out by hand.
#include <doctest.h>

#include <cmath>

#include "engine/exec/executor.h"
#include "engine/ops/op.h"

namespace infer {
namespace {

constexpr int64_t kRows = 64;

Graph finish(GraphBuilder& g) {
  Result<Graph> graph = g.finish();
  REQUIRE_MESSAGE(graph.has_value(), graph.error().message());
  return *std::move(graph);
}

/// Activations [width, 1, rows] in float32.
ValueId input(GraphBuilder& g, int64_t width, int64_t heads = 1) {
  return g.data_input(0, tensor(DType::f32, width, heads, kRows), Rows::tokens);
}

Graph attention_graph(const KvGeometry& kv, int64_t heads, int32_t window) {
  GraphBuilder g(infer_outputs, kRows, kRows, kv);
  const ValueId q = input(g, kv.layers[0].k_dim, heads);
  const ValueId slots = g.input(StepInput::slots);
  const ValueId sequences = g.input(StepInput::sequences);
  op::Attention params;
  params.window = window;
  g.output(g.add(params, {q, slots, sequences, kNoValue, kNoValue, kNoValue}));
  return finish(g);
}

/// A row sees `count` of the tokens, chosen by 4 heads of 32 elements in blocks of `block`.
Graph chosen_graph(const KvGeometry& kv, int64_t heads, int32_t count, int32_t block = 1) {
  GraphBuilder g(infer_outputs, kRows, kRows, kv);
  const ValueId slots = g.input(StepInput::slots);
  const ValueId sequences = g.input(StepInput::sequences);
  const ValueId weights = g.data_input(1, tensor(DType::f32, 4, 1, kRows), Rows::tokens);
  const ValueId q = g.data_input(2, tensor(DType::f32, 32, 4, kRows), Rows::tokens);
  const ValueId chosen = g.add(op::SelectSlots{1, count, block}, {q, weights, slots, sequences});
  op::Attention params;
  params.chosen_block = block;
  g.output(g.add(
      params, {input(g, kv.layers[0].k_dim, heads), slots, sequences, kNoValue, kNoValue, chosen}));
  return finish(g);
}

TEST_CASE("a batch's rows are taken together by sequence") {
  StepBatch batch;
  batch.tokens = {1, 2, 3, 4, 5};
  batch.slots = {7, 8, 9, 0, 20};
  batch.sequences = {0, 0, 0, 1, 2};
  batch.output_rows = {2, 4};
  const StepShape shape = batch.shape();
  REQUIRE(shape.parts.size() == 3);
  CHECK(shape.parts[0].first == 7);
  CHECK(shape.parts[0].count == 3);
  CHECK(shape.parts[2].first == 20);
  CHECK(shape.rows() == 5);
  CHECK(shape.outputs == 2);
}

TEST_CASE("a product reads its matrix once and multiplies it with every row") {
  GraphBuilder g(infer_outputs, kRows, kRows, {});
  const ValueId w = g.weight(0, tensor(DType::q4_0, 64, 100));
  g.output(g.add(op::Matmul{}, {input(g, 64), w, kNoValue, kNoValue}));
  const Graph graph = finish(g);
  const Work work = step_work(graph, {{{0, 3}, {7, 2}}, 2});
  CHECK(work.weight_bytes == 100 * 36);
  CHECK(work.weight_macs == 5 * 64 * 100);
  CHECK(work.activation_bytes == 5 * (64 + 100) * 4);
  CHECK(work.cache_bytes == 0);
}

TEST_CASE("what follows the selection of rows counts outputs alone") {
  GraphBuilder g(infer_outputs, kRows, kRows, {});
  const ValueId chosen = g.add(op::SelectRows{}, {input(g, 64), g.input(StepInput::output_rows)});
  const ValueId w = g.weight(0, tensor(DType::f32, 64, 10));
  g.output(g.add(op::Matmul{}, {chosen, w, kNoValue, kNoValue}));
  const Graph graph = finish(g);
  CHECK(step_work(graph, {{{0, 30}}, 1}).weight_macs == 640);
  const Work none = step_work(graph, {{{0, 30}}, 0});
  CHECK(none.weight_macs == 0);
  CHECK(none.weight_bytes == 0);
}

TEST_CASE("every head's matrix counts") {
  GraphBuilder g(infer_outputs, kRows, kRows, {});
  const ValueId w = g.weight(0, tensor(DType::f16, 32, 20, 4));
  g.output(g.add(op::HeadMatmul{}, {input(g, 32, 4), w}));
  const Work work = step_work(finish(g), {{{0, 2}}, 1});
  CHECK(work.weight_macs == 2 * 32 * 20 * 4);
  CHECK(work.weight_bytes == 32 * 20 * 4 * 2);
}

TEST_CASE("of a table the rows looked up are read") {
  GraphBuilder g(infer_outputs, kRows, kRows, {});
  const ValueId table = g.weight(0, tensor(DType::q8_0, 64, 1000));
  g.output(g.add(op::Embed{}, {g.input(StepInput::tokens), table}));
  CHECK(step_work(finish(g), {{{0, 3}}, 1}).weight_bytes == 3 * 68);
}

TEST_CASE("of experts one row reads those it uses, many rows nearly all") {
  GraphBuilder g(infer_outputs, kRows, kRows, {});
  const ValueId ids = g.data_input(1, tensor(DType::i32, 2, 1, kRows), Rows::tokens);
  const ValueId w = g.weight(0, tensor(DType::f32, 16, 8, 4));
  g.output(g.add(op::MoeMatmul{}, {input(g, 16), w, ids, kNoValue, kNoValue}));
  const Graph graph = finish(g);
  constexpr double kExpert = 16 * 8 * 4;
  CHECK(step_work(graph, {{{0, 1}}, 1}).weight_bytes == doctest::Approx(2 * kExpert));
  CHECK(step_work(graph, {{{0, 2}}, 1}).weight_bytes == doctest::Approx(3 * kExpert));
  CHECK(step_work(graph, {{{0, 50}}, 1}).weight_bytes == doctest::Approx(4 * kExpert));
  CHECK(step_work(graph, {{{0, 3}}, 1}).weight_macs == 3 * 2 * 16 * 8);
}

TEST_CASE("attention reads each sequence's keys and values once") {
  const KvGeometry kv{{{2, 32, 16}}, DType::f16, DType::f16};
  const Graph graph = attention_graph(kv, 4, 0);
  const Work work = step_work(graph, {{{0, 3}, {9, 1}}, 2});
  CHECK(work.cache_bytes == (3 + 10) * 2 * (32 + 16) * 2);
  CHECK(work.attention_macs == (1 + 2 + 3 + 10) * 4 * (32 + 16));
}

TEST_CASE("of chosen tokens every row reads its own, and the index all where there is a choice") {
  KvGeometry kv{{{1, 96, 64, 0, true}, {1, 32, 32, 0, true}}, DType::f16, DType::f16};
  const Graph graph = chosen_graph(kv, 3, 8);
  const Work few = step_work(graph, {{{0, 3}}, 1});
  CHECK(few.cache_bytes == (1 + 2 + 3) * 96 * 2);
  CHECK(few.attention_macs == (1 + 2 + 3) * 3 * (96 + 64));
  const Work more = step_work(graph, {{{7, 3}}, 1});  // sees 8, 9 and 10 tokens
  CHECK(more.cache_bytes == 3 * 8 * 96 * 2 + 10 * 32 * 2);
  CHECK(more.attention_macs == 3 * 8 * 3 * (96 + 64) + (9 + 10) * 4 * 32);
}

TEST_CASE("of a block one key is read, and a row also sees what is behind the last block") {
  const KvGeometry kv{{{1, 96, 64, 0, true}, {1, 32, 32, 0, true}}, DType::f16, DType::f16};
  const Graph graph = chosen_graph(kv, 3, 8, 4);
  const Work all = step_work(graph, {{{9, 2}}, 2});  // 10 and 11 slots are seen
  CHECK(all.cache_bytes == (10 + 11) * 96 * 2);
  CHECK(all.attention_macs == (10 + 11) * 3 * (96 + 64));
  // Of 14 and 15 slots, 3 blocks are complete: two of them, and 2 and 3 slots behind them.
  const Work more = step_work(graph, {{{13, 2}}, 2});
  CHECK(more.cache_bytes == (10 + 11) * 96 * 2 + 3 * 32 * 2);
  CHECK(more.attention_macs == (10 + 11) * 3 * (96 + 64) + 2 * 3 * 4 * 32);
}

TEST_CASE("of blocks of tokens one key is read, of all for all rows or of some for each") {
  KvLayerShape slots{.heads = 1, .k_dim = 64, .v_dim = 64, .window = 8, .v_in_k = true};
  KvLayerShape blocks = slots;
  blocks.window = 0;
  blocks.tokens = 4;
  KvLayerShape index{.heads = 1, .k_dim = 32, .v_dim = 32, .v_in_k = true, .tokens = 4};
  const KvGeometry kv{{slots, blocks, index}, DType::f16, DType::f16};
  const auto work = [&](bool chooses) {
    GraphBuilder g(infer_outputs, kRows, kRows, kv);
    const ValueId slot = g.input(StepInput::slots);
    const ValueId sequence = g.input(StepInput::sequences);
    const ValueId q = g.data_input(1, tensor(DType::f32, 32, 4, kRows), Rows::tokens);
    const ValueId chosen =
        chooses ? g.add(op::SelectSlots{2, 4, 4, true}, {q, kNoValue, slot, sequence}) : kNoValue;
    g.output(g.add(op::PooledAttention{0, 1, 1.0f, 8},
                   {input(g, 64, 3), slot, sequence, kNoValue, chosen}));
    return step_work(finish(g), {{{10, 2}}, 1});
  };
  // Slots 10 and 11 see the last 8 each, 9 in all; 2 and 3 blocks end up to there.
  const Work all = work(false);
  CHECK(all.cache_bytes == (9 + 3) * 128);
  CHECK(all.attention_macs == (8 + 2 + 8 + 3) * 3 * 128);
  const Work some = work(true);
  CHECK(some.cache_bytes == (9 + 2) * 128 + 3 * 64);
  CHECK(some.attention_macs == (8 + 1 + 8 + 1) * 3 * 128 + (2 + 3) * 4 * 32);
}

TEST_CASE("attention with a window reads no further back") {
  const KvGeometry kv{{{1, 32, 32, 4}}, DType::f32, DType::f32};
  const Graph graph = attention_graph(kv, 1, 4);
  const Work one = step_work(graph, {{{100, 1}}, 1});
  CHECK(one.cache_bytes == 4 * 2 * 32 * 4);
  CHECK(one.attention_macs == 4 * 64);
  const Work chunk = step_work(graph, {{{2, 3}}, 1});  // sees slots 0 to 4: 3, 4 and 4 of them
  CHECK(chunk.cache_bytes == 5 * 2 * 32 * 4);
  CHECK(chunk.attention_macs == (3 + 4 + 4) * 64);
}

TEST_CASE("values that lie in their keys are read with them") {
  KvGeometry kv{{{1, 96, 64, 0, true}}, DType::f16, DType::f16};
  CHECK(step_work(attention_graph(kv, 3, 0), {{{9, 1}}, 1}).cache_bytes == 10 * 96 * 2);
  kv.v_type = DType::f32;  // stored apart
  CHECK(step_work(attention_graph(kv, 3, 0), {{{9, 1}}, 1}).cache_bytes == 10 * (96 * 2 + 64 * 4));
}

TEST_CASE("a state is read and written once for each sequence of a step") {
  KvGeometry kv;
  kv.layers.resize(1);
  kv.layers[0].state = conv_state(4, 32) + scan_state(2, 8, 16);
  GraphBuilder g(infer_outputs, kRows, kRows, kv);
  const ValueId slots = g.input(StepInput::slots);
  const ValueId sequences = g.input(StepInput::sequences);
  const ValueId w = g.weight(0, tensor(DType::f32, 4, 32));
  const ValueId u = g.add(op::CausalConv{}, {input(g, 32), w, kNoValue, slots, sequences});
  const ValueId q = g.split_heads(g.slice(u, 0, 8), 1);
  const ValueId v = g.split_heads(u, 2);
  const ValueId gate = g.slice(u, 0, 2);
  const ValueId of_head = g.weight(1, tensor(DType::f32, 2));
  g.output(g.add(op::DeltaScan{0, conv_state(4, 32)},
                 {q, q, v, gate, gate, of_head, of_head, slots, sequences}));
  const Work work = step_work(finish(g), {{{0, 5}, {9, 1}}, 2});
  CHECK(work.cache_bytes == 2 * 2 * 4 * (3 * 32 + 2 * 8 * 16));
  CHECK(work.attention_macs == 3 * 6 * 2 * 8 * 16);
}

}  // namespace
}  // namespace infer
