#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

#include "engine/graph/alibi.h"
#include "engine/ops/op.h"
#include "engine/ops/reference.h"
#include "engine/quant/quant.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry& kv) {
  INFER_CHECK_R(check_inputs("attention", in, 6, {0, 1, 2}));
  const auto& p = std::get<op::Attention>(params);
  const auto layer = static_cast<size_t>(p.kv_layer);
  INFER_CHECK_R(check_shape("attention", layer < kv.layers.size(), "an existing layer", in));
  const KvLayerShape& shape = kv.layers[layer];
  const TensorDesc& q = in[0]->desc;
  const bool sinks_good =
      in[3] == nullptr || (in[3]->desc.type == DType::f32 && in[3]->desc.shape[0] == q.shape[1]);
  const bool chosen_good =
      in[5] == nullptr ||
      (in[5]->desc.type == DType::i32 && in[4] == nullptr && p.window == 0 && p.alibi == 0 &&
       (in[5]->desc.shape[1] == 1 || in[5]->desc.shape[1] == shape.heads));
  INFER_CHECK_R(check_shape(
      "attention",
      q.type == DType::f32 && q.shape[0] == shape.k_dim && q.shape[1] % shape.heads == 0 &&
          in[1]->desc.type == DType::i32 && in[2]->desc.type == DType::i32 && sinks_good &&
          (in[4] == nullptr || in[4]->desc.type == DType::i32) && chosen_good &&
          (!p.chunked || p.window > 0),
      "q f32 [k_dim, heads, rows], slots, sequences, sinks f32 [heads], last, chosen", in));
  return std::vector{made(DType::f32, shape.v_dim, q.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::Attention>(call.params);
  const auto layer = static_cast<size_t>(p.kv_layer);
  const KvLayerShape& shape = call.kv.layers[layer];
  const KvLayerLayout& at = call.kv_layout.layers[layer];
  const KvPages& pages = call.pages[static_cast<size_t>(at.kind)];
  const TensorRef& q = call.inputs[0];
  const TensorRef& sinks = call.inputs[3];
  const TensorRef& chosen = call.inputs[5];
  const TensorRef& out = call.outputs[0];
  const int64_t group = q.desc.shape[1] / shape.heads;
  std::vector<float> row(static_cast<size_t>(std::max(shape.k_dim, shape.v_dim)));
  std::vector<std::byte> key(static_cast<size_t>(shape.k_dim * at.k_element));
  for (int64_t r = 0; r < q.desc.shape[2]; ++r) {
    const int32_t slot = *call.inputs[1].row<int32_t>(0, r);
    const int32_t sequence = *call.inputs[2].row<int32_t>(0, r);
    const TensorRef& last_seen = call.inputs[4];
    const int32_t last = last_seen.data == nullptr ? slot : *last_seen.row<int32_t>(0, r);
    int32_t first = p.window > 0 ? std::max(0, slot - p.window + 1) : 0;
    if (p.chunked) first = slot - slot % p.window;
    for (int64_t h = 0; h < q.desc.shape[1]; ++h) {
      std::vector<int32_t> seen;
      if (chosen.data == nullptr) {
        for (int32_t s = first; s <= last; ++s) seen.push_back(s);
      } else {
        const int32_t* own = chosen.row<int32_t>(chosen.desc.shape[1] > 1 ? h / group : 0, r);
        std::copy_if(own, own + chosen.desc.shape[0], std::back_inserter(seen),
                     [](int32_t s) { return s >= 0; });
      }
      const auto stored = [&](int64_t s, int64_t offset, int64_t bytes) {
        return pages.page(sequence, s) + offset +
               (h / group * kPageTokens + s % kPageTokens) * bytes;
      };
      const auto load_key = [&](int64_t s) {
        const QuantTraits& type = quant_traits(call.kv.k_type);
        if (at.k_element == 0) {
          type.decode(stored(s, at.k_offset, at.k_row), row.data(), shape.k_dim);
          return;
        }
        const std::byte* keys =
            pages.page(sequence, s) + at.k_offset + h / group * kPageTokens * at.k_row;
        for (int64_t i = 0; i < shape.k_dim; ++i) {
          std::memcpy(&key[static_cast<size_t>(i * at.k_element)],
                      keys + (i * kPageTokens + s % kPageTokens) * at.k_element,
                      static_cast<size_t>(at.k_element));
        }
        type.decode(key.data(), row.data(), shape.k_dim);
      };
      std::vector<double> scores;
      double best = sinks.data == nullptr ? -std::numeric_limits<double>::infinity()
                                          : sinks.row<float>(0, 0)[h];
      for (const int32_t s : seen) {
        load_key(s);
        double score = dot_f64(q.row<float>(h, r), row.data(), shape.k_dim) * p.scale;
        if (p.alibi > 0) {
          score -= p.alibi_factor * alibi_slope(h, q.desc.shape[1], p.alibi) * std::abs(s - slot);
        }
        if (p.softcap > 0) score = p.softcap * std::tanh(score / p.softcap);
        best = std::max(best, score);
        scores.push_back(score);
      }
      double sum = sinks.data == nullptr ? 0 : std::exp(sinks.row<float>(0, 0)[h] - best);
      std::vector<double> mix(static_cast<size_t>(shape.v_dim), 0.0);
      for (size_t n = 0; n < seen.size(); ++n) {
        const double weight = std::exp(scores[n] - best);
        sum += weight;
        quant_traits(call.kv.v_type)
            .decode(stored(seen[n], at.v_offset, at.v_row), row.data(), shape.v_dim);
        for (size_t i = 0; i < mix.size(); ++i) mix[i] += weight * row[i];
      }
      for (size_t i = 0; i < mix.size(); ++i) {
        out.row<float>(h, r)[i] = static_cast<float>(mix[i] / sum);
      }
    }
  }
}

struct Shape {
  const char* name;
  int64_t heads;
  KvLayerShape kv;
  op::Attention params;
  bool sinks = false;
  bool ahead = false;  ///< rows see some slots after their own
};

/// Rows see `count` slots that a layer of index keys chooses, in blocks of so many. `by_head`: for
/// each kv head others.
void add_chosen(std::vector<OpCase>& all, const Shape& shape, DType type, int32_t count,
                int64_t rows, int32_t sequences, int32_t block = 1, bool by_head = false) {
  constexpr int64_t kIndex = 32;  // elements of an index key
  OpCase c;
  c.name = std::string(shape.name) + " " + std::to_string(count) + " chosen " +
           (block > 1 ? "in blocks of " + std::to_string(block) + " " : "") +
           (by_head ? "by head " : "") + std::string(dtype_info(type).ident) + " rows " +
           std::to_string(rows) + " sequences " + std::to_string(sequences);
  c.rows = rows;
  c.sequences = sequences;
  c.kv = {{shape.kv, {.heads = 1, .k_dim = kIndex, .v_dim = kIndex, .v_in_k = true}}, type, type};
  c.tolerance = is_quantised(type) ? 1e-3 : 1e-10;
  c.build = [shape, count, block, by_head](CaseBuilder& b) {
    GraphBuilder& g = b.graph();
    const ValueId q = b.activations(shape.kv.k_dim, shape.heads);
    const ValueId k = b.activations(shape.kv.k_dim, shape.kv.heads);
    const ValueId v = shape.kv.v_in_k ? g.slice(k, 0, shape.kv.v_dim)
                                      : b.activations(shape.kv.v_dim, shape.kv.heads);
    const ValueId key = b.activations(kIndex);
    const ValueId slots = g.input(StepInput::slots);
    const ValueId sequence = g.input(StepInput::sequences);
    const ValueId sinks = shape.sinks ? b.weight(DType::f32, shape.heads) : kNoValue;
    g.add_all(op::KvStore{0}, {k, v, slots, sequence});
    g.add_all(op::KvStore{1}, {key, key, slots, sequence});
    const ValueId queries = b.activations(kIndex, by_head ? shape.kv.heads : 8);
    const ValueId chosen = g.add(op::SelectSlots{1, count, block, false, by_head},
                                 {queries, by_head ? kNoValue : b.activations(8), slots, sequence});
    op::Attention params = shape.params;
    params.chosen_block = block;
    params.chosen_by_head = by_head;
    g.output(g.add(params, {q, slots, sequence, sinks, kNoValue, chosen}));
  };
  all.push_back(std::move(c));
}

struct Batch {
  int64_t rows;
  int32_t sequences;
};

void add_case(std::vector<OpCase>& all, const Shape& shape, DType type, Batch batch) {
  const auto [rows, sequences] = batch;
  OpCase c;
  c.name = std::string(shape.name) + " " + std::string(dtype_info(type).ident) + " rows " +
           std::to_string(rows) + " sequences " + std::to_string(sequences);
  c.rows = rows;
  c.sequences = sequences;
  c.kv = {{shape.kv}, type, type};
  // The cache's own rounding is the same on both sides; what differs is the order of the sums and,
  // for a quantised cache, how the query meets it.
  c.tolerance = is_quantised(type) ? 1e-3 : 1e-10;
  c.build = [shape](CaseBuilder& b) {
    GraphBuilder& g = b.graph();
    const ValueId q = b.activations(shape.kv.k_dim, shape.heads);
    const ValueId k = b.activations(shape.kv.k_dim, shape.kv.heads);
    const ValueId v = shape.kv.v_in_k ? g.slice(k, 0, shape.kv.v_dim)
                                      : b.activations(shape.kv.v_dim, shape.kv.heads);
    const ValueId slots = g.input(StepInput::slots);
    const ValueId sequence = g.input(StepInput::sequences);
    const ValueId sinks = shape.sinks ? b.weight(DType::f32, shape.heads) : kNoValue;
    g.add_all(op::KvStore{0}, {k, v, slots, sequence});
    const ValueId last = shape.ahead ? g.input(StepInput::last_seen) : kNoValue;
    g.output(g.add(shape.params, {q, slots, sequence, sinks, last, kNoValue}));
  };
  all.push_back(std::move(c));
}

void cases(std::vector<OpCase>& all) {
  // Heads of 32 and 64 elements meet every type of cache. What a shape adds is the same code for
  // all types: the others meet two, and together every type.
  const std::vector<DType> every{DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0};
  const std::vector<DType> f32_f16_q8_0{DType::f32, DType::f16, DType::q8_0};
  const std::vector<DType> f16_q8_0{DType::f16, DType::q8_0};
  const std::vector<DType> bf16_q4_0{DType::bf16, DType::q4_0};
  const std::pair<Shape, std::vector<DType>> shapes[] = {
      {{"one head", 1, {1, 32, 32}, {0, 0.2f}}, every},
      {{"grouped 8:2", 8, {2, 64, 64}, {0, 0.125f}}, every},
      {{"grouped 8:1", 8, {1, 128, 96}, {0, 0.09f}}, bf16_q4_0},
      {{"odd group 7:1", 7, {1, 32, 32}, {0, 0.18f}}, every},
      {{"odd group 3:1", 3, {1, 96, 64}, {0, 0.1f}}, f32_f16_q8_0},
      {{"window 5", 4, {4, 32, 32, 5}, {0, 0.18f, 0.0f, 5}}, every},
      {{"window 70", 4, {2, 32, 32, 70}, {0, 0.18f, 0.0f, 70}}, every},
      {{"chunks of 5", 4, {4, 32, 32, 5}, {0, 0.18f, 0.0f, 5, true}}, every},
      {{"chunks of 70", 4, {2, 32, 32, 70}, {0, 0.18f, 0.0f, 70, true}}, every},
      {{"softcap", 4, {2, 64, 64}, {0, 0.125f, 2.0f}}, every},
      {{"wide softcap", 4, {2, 64, 64}, {0, 0.5f, 30.0f}}, every},
      {{"sinks", 4, {2, 64, 64}, {0, 0.125f}, true}, f16_q8_0},
      {{"sinks, window 33, softcap", 6, {2, 32, 64, 33}, {0, 0.2f, 3.0f, 33}, true}, bf16_q4_0},
      {{"alibi", 8, {8, 32, 32}, {.scale = 0.18f, .alibi = 8.0f}}, every},
      {{"alibi, grouped 12:2, softcap",
        12,
        {2, 64, 64},
        {.scale = 0.125f, .softcap = 9.0f, .alibi = 6.0f, .alibi_factor = 0.4f}},
       f16_q8_0},
      {{"alibi, window 33, sinks",
        4,
        {2, 128, 128, 33},
        {.scale = 0.09f, .window = 33, .alibi = 8.0f},
        true},
       bf16_q4_0},
      {{"wide head", 2, {1, 256, 256}, {0, 0.0625f}}, f16_q8_0},
      {{"values in keys", 3, {1, 96, 64, 0, true}, {0, 0.1f}}, bf16_q4_0},
  };
  constexpr Batch batches[] = {{1, 1},  {2, 1},  {2, 3},   {3, 1},  {3, 3},
                               {33, 1}, {33, 3}, {130, 1}, {130, 3}};
  size_t turn = 0;  // so that each type meets every batch
  for (const auto& [shape, types] : shapes) {
    for (size_t i = 0; i < std::size(batches); ++i) {
      add_case(all, shape, types[(i + turn) % types.size()], batches[i]);
    }
    ++turn;
  }
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    add_case(all, {"odd head", 5, {5, 37, 19}, {0, 0.16f}}, type, {33, 2});
    add_case(all, {"odd values in keys", 6, {2, 37, 19, 0, true}, {0, 0.16f}}, type, {130, 2});
  }
  for (const DType type : {DType::f32, DType::f16, DType::q8_0}) {
    add_case(all, {"ahead", 4, {2, 64, 64}, {0, 0.125f}, false, true}, type, {33, 1});
    add_case(all, {"ahead", 4, {2, 64, 64}, {0, 0.125f}, false, true}, type, {3, 3});
    add_case(all, {"ahead, window 40", 6, {2, 64, 64, 40}, {0, 0.125f, 0.0f, 40}, false, true},
             type, {130, 3});
  }
  add_case(all, {"ahead, window 5, sinks", 2, {1, 32, 32, 5}, {0, 0.18f, 0.0f, 5}, true, true},
           DType::f16, {130, 2});
  add_case(all, {"ahead, alibi", 5, {5, 64, 64}, {.scale = 0.125f, .alibi = 8.0f}, false, true},
           DType::f16, {130, 2});
  add_case(all, {"long, alibi", 2, {2, 64, 64}, {.scale = 0.125f, .alibi = 8.0f}}, DType::f16,
           {300, 1});
  add_case(all,
           {"long, ahead, window 600", 2, {1, 32, 32, 600}, {0, 0.18f, 0.0f, 600}, false, true},
           DType::f16, {700, 1});
  add_case(all, {"odd wide head", 4, {2, 131, 77}, {0, 0.08f}}, DType::f16, {70, 2});
  // More heads than a unit of work may take at once, a whole number of units and not.
  add_case(all, {"large group", 128, {1, 72, 64, 0, true}, {0, 0.1f}}, DType::bf16, {3, 2});
  add_case(all, {"large odd group", 67, {1, 5, 3}, {0, 0.4f}}, DType::f32, {70, 1});
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    add_chosen(all, {"values in keys", 3, {1, 96, 64, 0, true}, {0, 0.1f}}, type, 20, 33, 3);
    add_chosen(all, {"grouped 8:2", 8, {2, 64, 64}, {0, 0.125f}}, type, 70, 66, 1);
  }
  add_chosen(all, {"odd values in keys", 6, {1, 37, 19, 0, true}, {0, 0.16f}}, DType::f16, 5, 3, 3);
  add_chosen(all, {"odd head, sinks", 5, {5, 37, 19}, {0, 0.16f}, true}, DType::bf16, 40, 70, 1);
  add_chosen(all, {"large group", 128, {1, 72, 64, 0, true}, {0, 0.1f}}, DType::f16, 10, 17, 1);
  add_chosen(all, {"latent", 16, {1, 576, 512, 0, true}, {0, 0.1f}}, DType::f16, 66, 70, 1);
  add_chosen(all, {"long", 2, {1, 32, 32}, {0, 0.18f}}, DType::f16, 520, 600, 1);
  add_chosen(all, {"grouped 8:2", 8, {2, 64, 64}, {0, 0.125f}}, DType::f16, 64, 200, 2, 16);
  add_chosen(all, {"odd head", 5, {5, 37, 19}, {0, 0.16f}}, DType::f32, 21, 130, 2, 7);
  add_chosen(all, {"values in keys", 3, {1, 96, 64, 0, true}, {0, 0.1f}}, DType::q8_0, 12, 1, 1, 4);
  add_chosen(all, {"long", 2, {1, 32, 32}, {0, 0.18f}}, DType::bf16, 256, 600, 1, 32);
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    add_chosen(all, {"grouped 8:2", 8, {2, 64, 64}, {0, 0.125f}}, type, 12, 70, 2, 4, true);
  }
  add_chosen(all, {"grouped 8:2", 8, {2, 64, 64}, {0, 0.125f}}, DType::f16, 64, 200, 1, 16, true);
  add_chosen(all, {"odd head", 6, {3, 37, 19}, {0, 0.16f}}, DType::f32, 21, 90, 2, 7, true);
  add_chosen(all, {"odd head", 6, {3, 37, 19}, {0, 0.16f}}, DType::f16, 8, 3, 3, 4, true);
  add_chosen(all, {"long", 4, {2, 32, 32}, {0, 0.18f}}, DType::bf16, 256, 600, 1, 128, true);
  // Long enough for several chunks of keys, and windows that begin and end in different ones.
  add_case(all, {"long", 2, {1, 32, 32}, {0, 0.18f}}, DType::f16, {700, 1});
  for (const DType type : {DType::f32, DType::q8_0}) {
    add_case(all, {"long, window 600, sinks", 2, {1, 32, 32, 600}, {0, 0.18f, 0.0f, 600}, true},
             type, {700, 1});
  }
}

}  // namespace

const OpDef& attention_op() {
  static const OpDef def{OpId::Attention, "attention", infer, reference, cases};
  return def;
}

}  // namespace infer
