#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/graph/alibi.h"
#include "engine/ops/op.h"
#include "engine/ops/reference.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("text_attention", in, 6, {0, 1, 2, 3, 4}));
  const auto& p = std::get<op::TextAttention>(params);
  const TensorDesc& q = in[0]->desc;
  const TensorDesc& k = in[1]->desc;
  const TensorDesc& v = in[2]->desc;
  const bool sinks_good =
      in[5] == nullptr || (in[5]->desc.type == DType::f32 && in[5]->desc.shape[0] == q.shape[1]);
  INFER_CHECK_R(check_shape(
      "text_attention",
      q.type == DType::f32 && k.type == DType::f32 && v.type == DType::f32 &&
          q.shape[0] == k.shape[0] && k.shape[1] == v.shape[1] && q.shape[1] % k.shape[1] == 0 &&
          in[3]->desc.type == DType::i32 && in[4]->desc.type == DType::i32 && sinks_good &&
          p.before >= -1 && p.after >= -1 && p.chunk >= 0,
      "q f32 [k_dim, heads, rows], k f32 [k_dim, kv_heads, rows], v f32 [v_dim, kv_heads, rows], "
      "begins, ends i32 [1, 1, rows], sinks f32 [heads]",
      in));
  return std::vector{made(DType::f32, v.shape[0], q.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::TextAttention>(call.params);
  const TensorRef& q = call.inputs[0];
  const TensorRef& k = call.inputs[1];
  const TensorRef& v = call.inputs[2];
  const TensorRef& sinks = call.inputs[5];
  const TensorRef& out = call.outputs[0];
  const int64_t heads = q.desc.shape[1];
  const int64_t group = heads / k.desc.shape[1];
  for (int64_t r = 0; r < q.desc.shape[2]; ++r) {
    const int64_t begin = *call.inputs[3].row<int32_t>(0, r);
    const int64_t end = *call.inputs[4].row<int32_t>(0, r);
    int64_t first = p.before < 0 ? begin : std::max(begin, r - p.before);
    const int64_t last = p.after < 0 ? end - 1 : std::min(end - 1, r + p.after);
    if (p.chunk > 0) first = std::max(first, begin + (r - begin) / p.chunk * p.chunk);
    for (int64_t h = 0; h < heads; ++h) {
      const double slope = p.alibi > 0 ? p.alibi_factor * alibi_slope(h, heads, p.alibi) : 0;
      std::vector<double> scores;
      double best = sinks.data == nullptr ? -std::numeric_limits<double>::infinity()
                                          : sinks.row<float>(0, 0)[h];
      for (int64_t s = first; s <= last; ++s) {
        double score = dot_f64(q.row<float>(h, r), k.row<float>(h / group, s), q.desc.shape[0]);
        score = score * p.scale - slope * static_cast<double>(std::abs(r - s));
        if (p.softcap > 0) score = p.softcap * std::tanh(score / p.softcap);
        best = std::max(best, score);
        scores.push_back(score);
      }
      double sum = sinks.data == nullptr ? 0 : std::exp(sinks.row<float>(0, 0)[h] - best);
      std::vector<double> mix(static_cast<size_t>(v.desc.shape[0]), 0.0);
      for (int64_t s = first; s <= last; ++s) {
        const double weight = std::exp(scores[static_cast<size_t>(s - first)] - best);
        sum += weight;
        for (size_t i = 0; i < mix.size(); ++i) mix[i] += weight * v.row<float>(h / group, s)[i];
      }
      for (size_t i = 0; i < mix.size(); ++i) {
        out.row<float>(h, r)[i] = static_cast<float>(mix[i] / sum);
      }
    }
  }
}

struct Shape {
  const char* name;
  int64_t heads, kv_heads, k_dim, v_dim;
  op::TextAttention params;
  bool sinks = false;
};

void cases(std::vector<OpCase>& all) {
  const Shape shapes[] = {
      {"one head", 1, 1, 32, 32, {.scale = 0.2f}},
      {"heads", 12, 12, 32, 32, {.scale = 0.18f}},
      {"grouped 8:2", 8, 2, 64, 64, {.scale = 0.125f}},
      {"odd group 7:1, odd head", 7, 1, 37, 19, {.scale = 0.16f}},
      {"large group 128:1", 128, 1, 24, 24, {.scale = 0.2f}},
      {"large heads", 2, 1, 256, 256, {.scale = 0.06f}},
      {"causal", 4, 2, 32, 32, {.scale = 0.18f, .after = 0}},
      {"causal, window 5", 4, 2, 32, 32, {.scale = 0.18f, .before = 4, .after = 0}},
      {"window of 64 to both sides", 4, 4, 64, 64, {.scale = 0.1f, .before = 64, .after = 64}},
      {"window of 3 to both sides", 4, 4, 16, 16, {.scale = 0.3f, .before = 3, .after = 3}},
      {"chunks of 5", 4, 2, 32, 32, {.scale = 0.18f, .after = 0, .chunk = 5}},
      {"softcap", 4, 2, 32, 48, {.scale = 0.5f, .softcap = 3.0f}},
      {"alibi", 8, 8, 32, 32, {.scale = 0.18f, .alibi = 8.0f}},
      {"alibi, 12 heads", 12, 12, 32, 32, {.scale = 0.18f, .alibi = 5.0f, .alibi_factor = 0.7f}},
      {"sinks", 6, 2, 32, 32, {.scale = 0.18f, .after = 0}, true},
  };
  constexpr std::pair<int64_t, int32_t> kBatches[] = {{1, 1},  {2, 1},   {3, 3},   {33, 1},
                                                      {33, 3}, {130, 1}, {130, 3}, {300, 2}};
  for (const Shape& shape : shapes) {
    for (const auto& [rows, sequences] : kBatches) {
      if (shape.k_dim > 128 && rows > 33) continue;
      OpCase c;
      c.name = std::string(shape.name) + " rows " + std::to_string(rows) + " texts " +
               std::to_string(sequences);
      c.rows = rows;
      c.sequences = sequences;
      c.tolerance = 1e-10;
      c.build = [shape](CaseBuilder& b) {
        GraphBuilder& g = b.graph();
        // Keys and values that lie beside each other, as after one product.
        const int64_t keys = shape.kv_heads * shape.k_dim;
        const int64_t values = shape.kv_heads * shape.v_dim;
        const ValueId both = b.activations(keys + values);
        const ValueId k = g.split_heads(g.slice(both, 0, keys), shape.kv_heads);
        const ValueId v = g.split_heads(g.slice(both, keys, values), shape.kv_heads);
        const ValueId q = b.activations(shape.k_dim, shape.heads);
        const ValueId sinks = shape.sinks ? b.weight(DType::f32, shape.heads) : kNoValue;
        g.output(g.add(shape.params, {q, k, v, g.input(StepInput::text_begins),
                                      g.input(StepInput::text_ends), sinks}));
      };
      all.push_back(std::move(c));
    }
  }
  for (const int64_t outputs : {1, 17, 70}) {
    for (const int64_t size : {32, 64}) {
      OpCase c;
      c.name = "among " + std::to_string(outputs) + " results, heads of " + std::to_string(size);
      c.rows = outputs + 30;
      c.outputs = outputs;
      c.tolerance = 1e-10;
      c.build = [=](CaseBuilder& b) {
        GraphBuilder& g = b.graph();
        ValueId parts[3];
        for (int i = 0; i < 3; ++i) {
          const ValueId rows = g.input(StepInput::output_rows);
          const ValueId x = b.activations((i == 0 ? 4 : 2) * size);
          parts[i] = g.split_heads(g.add(op::SelectRows{}, {x, rows}), i == 0 ? 4 : 2);
        }
        // The first ones of more.
        const auto one = [&](int64_t value) { return b.indices(1, value + 1, value); };
        g.output(g.add(op::TextAttention{.scale = 0.15f},
                       {parts[0], parts[1], parts[2], one(0), one(outputs), kNoValue}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& text_attention_op() {
  static const OpDef def{OpId::TextAttention, "text_attention", infer, reference, cases};
  return def;
}

}  // namespace infer
