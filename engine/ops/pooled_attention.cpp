#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "engine/ops/op.h"
#include "engine/ops/reference.h"
#include "engine/quant/quant.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry& kv) {
  INFER_CHECK_R(check_inputs("pooled_attention", in, 5, {0, 1, 2}));
  const auto& p = std::get<op::PooledAttention>(params);
  const auto layer = static_cast<size_t>(p.kv_layer);
  const auto pooled = static_cast<size_t>(p.pooled_layer);
  INFER_CHECK_R(check_shape("pooled_attention",
                            layer < kv.layers.size() && pooled < kv.layers.size(),
                            "existing layers", in));
  const KvLayerShape& shape = kv.layers[layer];
  const KvLayerShape& blocks = kv.layers[pooled];
  const TensorDesc& q = in[0]->desc;
  const bool sinks_good =
      in[3] == nullptr || (in[3]->desc.type == DType::f32 && in[3]->desc.shape[0] == q.shape[1]);
  INFER_CHECK_R(check_shape(
      "pooled_attention",
      q.type == DType::f32 && q.shape[0] == shape.k_dim && shape.heads == 1 && blocks.heads == 1 &&
          shape.tokens == 1 && blocks.k_dim == shape.k_dim && blocks.v_dim == shape.v_dim &&
          shape.v_in_k && blocks.v_in_k && p.window >= 1 && in[1]->desc.type == DType::i32 &&
          in[2]->desc.type == DType::i32 && sinks_good &&
          (in[4] == nullptr || in[4]->desc.type == DType::i32),
      "q f32 [k_dim, heads, rows], slots, sequences, sinks f32 [heads], chosen i32; layers of one "
      "kv head with values in their keys",
      in));
  return std::vector{made(DType::f32, shape.v_dim, q.shape[1], *in[0])};
}

/// Decodes the key, or the value, of a slot. Values have no offset of their own where they share
/// the bytes of their keys.
std::vector<float> decoded(const RefCall& call, int32_t layer, int32_t sequence, int64_t slot,
                           bool value) {
  const auto i = static_cast<size_t>(layer);
  const KvLayerLayout& at = call.kv_layout.layers[i];
  const KvLayerShape& shape = call.kv.layers[i];
  const QuantTraits& type = quant_traits(value ? call.kv.v_type : call.kv.k_type);
  const std::byte* page =
      call.pages[static_cast<size_t>(at.kind)].page(sequence, static_cast<int32_t>(slot));
  const int64_t dim = value ? shape.v_dim : shape.k_dim;
  std::vector<float> row(static_cast<size_t>(dim));
  if (value || at.k_element == 0) {
    const std::byte* from = value ? page + at.v_offset + at.row(slot) * at.v_row
                                  : page + at.k_offset + at.row(slot) * at.k_row;
    type.decode(from, row.data(), dim);
    return row;
  }
  for (int64_t d = 0; d < dim; ++d) {
    type.decode(page + at.k_offset + (d * kPageTokens + slot % kPageTokens) * at.k_element,
                &row[static_cast<size_t>(d)], 1);
  }
  return row;
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::PooledAttention>(call.params);
  const TensorRef& q = call.inputs[0];
  const TensorRef& sinks = call.inputs[3];
  const TensorRef& chosen = call.inputs[4];
  const TensorRef& out = call.outputs[0];
  const int32_t tokens = call.kv.layers[static_cast<size_t>(p.pooled_layer)].tokens;
  for (int64_t r = 0; r < q.desc.shape[2]; ++r) {
    const int32_t slot = *call.inputs[1].row<int32_t>(0, r);
    const int32_t sequence = *call.inputs[2].row<int32_t>(0, r);
    std::vector<std::vector<float>> keys;
    std::vector<std::vector<float>> values;
    const auto add = [&](int32_t layer, int64_t at) {
      keys.push_back(decoded(call, layer, sequence, at, false));
      values.push_back(decoded(call, layer, sequence, at, true));
    };
    for (int32_t s = std::max(0, slot - p.window + 1); s <= slot; ++s) add(p.kv_layer, s);
    const int64_t complete = (slot + 1) / tokens;
    const int64_t most = chosen.data == nullptr ? complete : chosen.desc.shape[0];
    for (int64_t i = 0; i < op::PooledAttention::blocks(slot, tokens, most); ++i) {
      const int64_t block = chosen.data == nullptr ? i : chosen.row<int32_t>(0, r)[i];
      add(p.pooled_layer, (block + 1) * tokens - 1);
    }
    for (int64_t h = 0; h < q.desc.shape[1]; ++h) {
      const double sink = sinks.data == nullptr ? -std::numeric_limits<double>::infinity()
                                                : sinks.row<float>(0, 0)[h];
      double best = sink;
      std::vector<double> scores;
      for (const std::vector<float>& key : keys) {
        scores.push_back(dot_f64(q.row<float>(h, r), key.data(), q.desc.shape[0]) * p.scale);
        best = std::max(best, scores.back());
      }
      double sum = std::exp(sink - best);
      std::vector<double> mix(static_cast<size_t>(out.desc.shape[0]), 0.0);
      for (size_t n = 0; n < scores.size(); ++n) {
        const double weight = std::exp(scores[n] - best);
        sum += weight;
        for (size_t i = 0; i < mix.size(); ++i) mix[i] += weight * values[n][i];
      }
      for (size_t i = 0; i < mix.size(); ++i) {
        out.row<float>(h, r)[i] = static_cast<float>(mix[i] / sum);
      }
    }
  }
}

struct Shape {
  int64_t heads;
  int32_t k_dim, v_dim, window, tokens;
  int32_t count = 0;  ///< blocks that are chosen; 0: all are seen
  bool sinks = true;
};

/// `v_type`: of values, which then do not share the bytes of keys.
void add_case(std::vector<OpCase>& all, const Shape& shape, DType type, int64_t rows,
              int32_t sequences, std::optional<DType> v_type = {}) {
  constexpr int32_t kIndex = 32;  // elements of an index key
  OpCase c;
  c.name = std::to_string(shape.heads) + " heads of " + std::to_string(shape.k_dim) + " window " +
           std::to_string(shape.window) + " blocks of " + std::to_string(shape.tokens) +
           (shape.count > 0 ? " " + std::to_string(shape.count) + " chosen" : "") +
           (shape.sinks ? " sinks " : " ") + std::string(dtype_info(type).ident) +
           (v_type ? " and " + std::string(dtype_info(*v_type).ident) : "") + " rows " +
           std::to_string(rows) + " sequences " + std::to_string(sequences);
  c.rows = rows;
  c.sequences = sequences;
  const auto layer = [&](int32_t k_dim, int32_t v_dim, int32_t window, int32_t tokens) {
    return KvLayerShape{.heads = 1,
                        .k_dim = k_dim,
                        .v_dim = v_dim,
                        .window = window,
                        .v_in_k = true,
                        .tokens = tokens};
  };
  c.kv = {
      {layer(shape.k_dim, shape.v_dim, shape.window, 1),
       layer(shape.k_dim, shape.v_dim, 0, shape.tokens), layer(kIndex, kIndex, 0, shape.tokens)},
      type,
      v_type.value_or(type)};
  c.tolerance = is_quantised(type) ? 1e-3 : 1e-10;
  c.build = [shape](CaseBuilder& b) {
    GraphBuilder& g = b.graph();
    const ValueId slots = g.input(StepInput::slots);
    const ValueId sequence = g.input(StepInput::sequences);
    const auto store = [&](int32_t layer, int64_t k_dim, int64_t v_dim) {
      const ValueId k = b.activations(k_dim);
      g.add_all(op::KvStore{layer}, {k, g.slice(k, 0, v_dim), slots, sequence});
    };
    store(0, shape.k_dim, shape.v_dim);
    store(1, shape.k_dim, shape.v_dim);
    ValueId chosen = kNoValue;
    if (shape.count > 0) {
      store(2, kIndex, kIndex);
      chosen = g.add(op::SelectSlots{2, shape.count * shape.tokens, shape.tokens, true},
                     {b.activations(kIndex, 8), b.activations(8), slots, sequence});
    }
    const ValueId sinks = shape.sinks ? b.weight(DType::f32, shape.heads) : kNoValue;
    const float scale = 1.2f / std::sqrt(static_cast<float>(shape.k_dim));
    g.output(g.add(op::PooledAttention{0, 1, scale, shape.window},
                   {b.activations(shape.k_dim, shape.heads), slots, sequence, sinks, chosen}));
  };
  all.push_back(std::move(c));
}

void cases(std::vector<OpCase>& all) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
    add_case(all, {4, 64, 64, 20, 4}, type, 130, 3);
    add_case(all, {3, 96, 64, 30, 4, 9}, type, 66, 2);
  }
  for (const auto& [rows, sequences] : {std::pair{1, 1}, {2, 1}, {3, 3}, {33, 2}}) {
    add_case(all, {5, 64, 64, 9, 4, 3}, DType::f16, rows, sequences);
    add_case(all, {5, 64, 64, 9, 7, 0, false}, DType::f32, rows, sequences);
  }
  add_case(all, {6, 37, 19, 5, 6}, DType::f16, 190, 1);      // blocks across pages
  add_case(all, {2, 32, 32, 128, 100}, DType::f16, 210, 1);  // and longer than these
  add_case(all, {3, 32, 32, 128, 128}, DType::bf16, 180, 1);
  add_case(all, {64, 512, 512, 128, 4, 64}, DType::f16, 40, 1);
  add_case(all, {67, 64, 64, 12, 1, 33}, DType::f32, 70, 1);
  add_case(all, {8, 64, 64, 128, 1, 150}, DType::f16, 180, 1);  // as many keys as 6 pages have
  add_case(all, {16, 64, 64, 128, 1, 0, false}, DType::q8_0, 150, 1);
  add_case(all, {5, 64, 32, 20, 4, 9}, DType::q8_0, 130, 2, DType::f16);
  add_case(all, {5, 40, 40, 20, 6}, DType::f16, 130, 2, DType::f32);
  add_case(all, {3, 37, 37, 70, 4, 5}, DType::f32, 190, 1, DType::bf16);
}

}  // namespace

const OpDef& pooled_attention_op() {
  static const OpDef def{OpId::PooledAttention, "pooled_attention", infer, reference, cases};
  return def;
}

}  // namespace infer
