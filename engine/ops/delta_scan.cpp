#include <cmath>

#include "engine/ops/op.h"
#include "engine/ops/recurrent.h"
#include "engine/ops/reference.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry& kv) {
  INFER_CHECK_R(check_inputs("delta_scan", in, 9, {0, 1, 2, 3, 4, 5, 6, 7, 8}));
  const auto& p = std::get<op::DeltaScan>(params);
  const TensorDesc& q = in[0]->desc;
  const TensorDesc& v = in[2]->desc;
  const int64_t heads = v.shape[1];
  const auto one_each = [&](size_t i) {
    const TensorDesc& x = in[i]->desc;
    const int64_t each = p.by_channel && (i == 3 || i == 6) ? q.shape[0] : 1;
    return x.type == DType::f32 && x.shape[0] * (i < 5 ? x.shape[1] : 1) == each * heads;
  };
  const bool by_channel = !p.by_channel || in[3]->desc.shape[0] == q.shape[0];
  INFER_CHECK_R(
      check_shape("delta_scan",
                  q.type == DType::f32 && in[1]->desc.type == DType::f32 && v.type == DType::f32 &&
                      q.same_shape(in[1]->desc) && heads % q.shape[1] == 0 && one_each(3) &&
                      one_each(4) && one_each(5) && one_each(6) && by_channel && p.bound <= 0 &&
                      (p.bound == 0 || p.by_channel) && p.at >= 0 && p.at % kStatePad == 0,
                  "q, k f32 [k_dim, key heads, rows], v f32 [v_dim, heads, rows], step, "
                  "write, a, bias of heads, or step, bias of each one's channels",
                  in));
  INFER_CHECK_R(check_state("delta_scan", in, 7, kv, p.kv_layer,
                            p.at + scan_state(heads, q.shape[0], v.shape[0])));
  return std::vector{made(DType::f32, v.shape[0], heads, *in[2])};
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::DeltaScan>(call.params);
  const TensorRef& q = call.inputs[0];
  const TensorRef& k = call.inputs[1];
  const TensorRef& v = call.inputs[2];
  const int64_t heads = v.desc.shape[1];
  const int64_t key_heads = q.desc.shape[1];
  const int64_t dim = q.desc.shape[0];
  std::vector<double> decays(static_cast<size_t>(dim));
  for (int64_t r = 0; r < v.desc.shape[2]; ++r) {
    float* states = state_of(call, p.kv_layer, 7, r) + p.at;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t from = p.tiled ? h % key_heads : h / (heads / key_heads);
      for (int64_t i = 0; i < dim; ++i) {
        const double step =
            p.by_channel ? call.inputs[3].row<float>(h, r)[i] : of_head(call.inputs[3], h, r);
        const float bias = call.inputs[6].row<float>(0, 0)[p.by_channel ? h * dim + i : h];
        const double a = call.inputs[5].row<float>(0, 0)[h];
        const double rate = p.bound < 0 ? p.bound / (1 + std::exp(-std::abs(a) * (step + bias)))
                                        : a * softplus(step + bias);
        decays[static_cast<size_t>(i)] = std::exp(rate);
      }
      const double beta = 1 / (1 + std::exp(-static_cast<double>(of_head(call.inputs[4], h, r))));
      const ReferenceScan scan{states + scan_state(h, dim, v.desc.shape[0]), dim, v.desc.shape[0],
                               decays, *call.inputs[7].row<int32_t>(0, r) == 0};
      const float* keys = k.row<float>(from, r);
      const float* queries = q.row<float>(from, r);
      const double met = dot_f64(keys, queries, dim) * p.k_scale * p.q_scale;
      for (int64_t c = 0; c < v.desc.shape[0]; ++c) {
        const double change = beta * (v.row<float>(h, r)[c] - p.k_scale * scan.read(keys, c));
        call.outputs[0].row<float>(h, r)[c] =
            static_cast<float>(p.q_scale * scan.read(queries, c) + met * change);
        scan.write(keys, p.k_scale * change, c);
      }
    }
  }
}

struct Shape {
  int64_t k_dim, key_heads, v_dim, heads;
  bool tiled;
  bool by_channel;
  float bound = 0;
};

void add_case(std::vector<OpCase>& all, const Shape& shape, int64_t rows, int32_t sequences) {
  OpCase c;
  c.name = std::to_string(shape.heads) + ":" + std::to_string(shape.key_heads) + " heads of " +
           std::to_string(shape.k_dim) + " x " + std::to_string(shape.v_dim) +
           (shape.by_channel ? " by channel" : "") + (shape.bound < 0 ? " bounded" : "") +
           " rows " + std::to_string(rows) + " sequences " + std::to_string(sequences);
  c.rows = rows;
  c.sequences = sequences;
  c.tolerance = 1e-10;
  constexpr int64_t kBefore = 32;  // of a convolution
  c.kv.layers = {state_shape(7),
                 state_shape(kBefore + scan_state(shape.heads, shape.k_dim, shape.v_dim))};
  c.build = [shape](CaseBuilder& b) {
    GraphBuilder& g = b.graph();
    const int64_t keys = shape.k_dim * shape.key_heads;
    const int64_t values = shape.v_dim * shape.heads;
    const ValueId all = b.activations(2 * keys + values);
    const ValueId q = g.split_heads(g.slice(all, 0, keys), shape.key_heads);
    const ValueId k = g.split_heads(g.slice(all, keys, keys), shape.key_heads);
    const ValueId v = g.split_heads(g.slice(all, 2 * keys, values), shape.heads);
    // Interleaved by key head, as Qwen3-Next has them, unless tiled.
    const int64_t groups = shape.tiled ? 1 : shape.key_heads;
    const int64_t each = shape.heads / groups;
    const ValueId both = g.split_heads(b.activations(2 * shape.heads), groups);
    const int64_t channels = shape.by_channel ? shape.k_dim * shape.heads : shape.heads;
    const ValueId step = shape.by_channel ? g.split_heads(b.activations(channels), shape.heads)
                                          : g.slice(both, each, each);
    const ValueId a = b.decays(shape.heads);
    const float root = 1.0f / std::sqrt(static_cast<float>(shape.k_dim));
    const op::DeltaScan params{1,           kBefore,          root * root, root,
                               shape.tiled, shape.by_channel, shape.bound};
    const op::RmsNorm unit{1e-6f};
    g.output(g.add(params, {g.add(unit, {q, kNoValue}), g.add(unit, {k, kNoValue}), v, step,
                            g.slice(both, 0, each), a, b.weight(DType::f32, channels),
                            g.input(StepInput::slots), g.input(StepInput::sequences)}));
  };
  all.push_back(std::move(c));
}

void cases(std::vector<OpCase>& all) {
  for (const Shape& shape : {Shape{16, 2, 16, 4, true, false},
                             {16, 2, 16, 4, false, false},
                             {37, 1, 19, 3, false, false},
                             {128, 2, 128, 4, true, false},
                             {64, 3, 80, 3, false, false},
                             {37, 2, 19, 4, true, true},
                             {128, 3, 128, 3, false, true},
                             {37, 2, 19, 4, true, true, -5.0f},
                             {128, 3, 128, 3, false, true, -0.7f}}) {
    for (const auto& [rows, sequences] : {std::pair{1, 1}, {2, 1}, {3, 3}, {33, 2}}) {
      add_case(all, shape, rows, sequences);
    }
  }
  add_case(all, {32, 2, 48, 6, false, false}, 130, 1);
  add_case(all, {64, 2, 48, 2, false, true}, 130, 1);
}

}  // namespace

const OpDef& delta_scan_op() {
  static const OpDef def{OpId::DeltaScan, "delta_scan", infer, reference, cases};
  return def;
}

}  // namespace infer
