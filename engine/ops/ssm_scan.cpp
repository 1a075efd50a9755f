#include <cmath>

#include "engine/ops/op.h"
#include "engine/ops/recurrent.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry& kv) {
  INFER_CHECK_R(check_inputs("ssm_scan", in, 9, {0, 1, 2, 7, 8}));
  const auto& p = std::get<op::SsmScan>(params);
  const TensorDesc& x = in[0]->desc;
  const TensorDesc& b = in[1]->desc;
  const int64_t heads = x.shape[1];
  const auto is = [&](size_t i, int64_t d0, int64_t d1) {
    if (p.slope > 0) return in[i] == nullptr;
    return in[i] != nullptr && in[i]->desc.type == DType::f32 && in[i]->desc.shape[0] == d0 &&
           in[i]->desc.shape[1] == d1;
  };
  const int64_t width = x.shape[0] * heads;
  const bool gates = p.by_element
                         ? is(3, x.shape[0], heads) && is(4, b.shape[0], width) &&
                               in[5] == nullptr && is(6, width, 1) && !(p.slope > 0)
                         : is(3, heads, 1) && is(4, heads, 1) && is(5, heads, 1) && is(6, heads, 1);
  INFER_CHECK_R(check_shape(
      "ssm_scan",
      x.type == DType::f32 && b.type == DType::f32 && in[2]->desc.type == DType::f32 &&
          b.same_shape(in[2]->desc) && heads % b.shape[1] == 0 && gates && p.slope >= 0 &&
          p.at >= 0 && p.at % kStatePad == 0,
      "x f32 [head, heads, rows], b, c f32 [n, groups, rows], step, a, bias, d of heads, or none "
      "with a slope, or step, a, d by element",
      in));
  INFER_CHECK_R(check_state("ssm_scan", in, 7, kv, p.kv_layer,
                            p.at + scan_state(heads, b.shape[0], x.shape[0])));
  return std::vector{made(DType::f32, x.shape[0], heads, *in[0])};
}

/// The column e of a head: what it reads and writes, with decays of its own.
void reference_column(const RefCall& call, float* states, int64_t h, int64_t r, int64_t e) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& b = call.inputs[1];
  const int64_t n = b.desc.shape[0];
  const int64_t group = h / (x.desc.shape[1] / b.desc.shape[1]);
  const int64_t column = h * x.desc.shape[0] + e;
  const double step = softplus(call.inputs[3].row<float>(h, r)[e]);
  std::vector<double> decays(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    decays[static_cast<size_t>(i)] = std::exp(call.inputs[4].row<float>(column, 0)[i] * step);
  }
  const ReferenceScan scan{states + scan_state(h, n, x.desc.shape[0]), n, x.desc.shape[0], decays,
                           *call.inputs[7].row<int32_t>(0, r) == 0};
  const float* write = b.row<float>(group, r);
  const float* read = call.inputs[2].row<float>(group, r);
  const double value = x.row<float>(h, r)[e];
  double out = scan.read(read, e) + call.inputs[6].row<float>(0, 0)[column] * value;
  for (int64_t i = 0; i < n; ++i) out += static_cast<double>(write[i]) * read[i] * step * value;
  call.outputs[0].row<float>(h, r)[e] = static_cast<float>(out);
  scan.write(write, step * value, e);
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::SsmScan>(call.params);
  const TensorRef& x = call.inputs[0];
  const TensorRef& b = call.inputs[1];
  const TensorRef& c = call.inputs[2];
  const int64_t heads = x.desc.shape[1];
  const auto of_head = [&](size_t i, int64_t h) {
    return static_cast<double>(call.inputs[i].row<float>(0, 0)[h]);
  };
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    float* states = state_of(call, p.kv_layer, 7, r) + p.at;
    for (int64_t h = 0; h < heads; ++h) {
      if (p.by_element) {
        for (int64_t e = 0; e < x.desc.shape[0]; ++e) reference_column(call, states, h, r, e);
        continue;
      }
      const int64_t group = h / (heads / b.desc.shape[1]);
      const bool sloped = p.slope > 0;
      const double step =
          sloped ? 1.0 : softplus(call.inputs[3].row<float>(0, r)[h] + of_head(5, h));
      const double place = static_cast<double>(h + 1) / static_cast<double>(heads);
      const double a = sloped ? -p.slope * std::exp2(-8.0 * place) : of_head(4, h);
      const std::vector<double> decays(static_cast<size_t>(b.desc.shape[0]), std::exp(a * step));
      const ReferenceScan scan{states + scan_state(h, b.desc.shape[0], x.desc.shape[0]),
                               b.desc.shape[0], x.desc.shape[0], decays,
                               *call.inputs[7].row<int32_t>(0, r) == 0};
      const float* write = b.row<float>(group, r);
      const float* read = c.row<float>(group, r);
      double met = 0;
      for (int64_t i = 0; i < b.desc.shape[0]; ++i) met += static_cast<double>(write[i]) * read[i];
      for (int64_t e = 0; e < x.desc.shape[0]; ++e) {
        const double value = x.row<float>(h, r)[e];
        call.outputs[0].row<float>(h, r)[e] = static_cast<float>(
            scan.read(read, e) + met * step * value + (sloped ? 0.0 : of_head(6, h) * value));
        scan.write(write, step * value, e);
      }
    }
  }
}

struct Shape {
  int64_t n, groups, head, heads;
  float slope = 0;
  bool by_element = false;
};

void add_case(std::vector<OpCase>& all, const Shape& shape, int64_t rows, int32_t sequences) {
  OpCase c;
  c.name = std::to_string(shape.heads) + ":" + std::to_string(shape.groups) + " heads of " +
           std::to_string(shape.n) + " x " + std::to_string(shape.head) +
           (shape.slope > 0 ? " sloped" : "") + (shape.by_element ? " by element" : "") + " rows " +
           std::to_string(rows) + " sequences " + std::to_string(sequences);
  c.rows = rows;
  c.sequences = sequences;
  c.tolerance = 1e-10;
  c.kv.layers = {state_shape(16 + scan_state(shape.heads, shape.n, shape.head))};
  c.build = [shape](CaseBuilder& b) {
    GraphBuilder& g = b.graph();
    const int64_t width = shape.head * shape.heads;
    const int64_t each = shape.n * shape.groups;
    const int64_t steps = shape.by_element ? width : shape.heads;
    const ValueId all = b.activations(width + 2 * each + steps, 1, 0.5f);
    const auto part = [&](int64_t begin, int64_t length, int64_t heads) {
      return g.split_heads(g.slice(all, begin, length), heads);
    };
    if (shape.by_element) {
      const ValueId a = b.decays(shape.n, width);
      g.output(
          g.add(op::SsmScan{0, 16, 0, true},
                {part(0, width, shape.heads), part(width, each, shape.groups),
                 part(width + each, each, shape.groups), part(width + 2 * each, width, shape.heads),
                 a, kNoValue, b.weight(DType::f32, width), g.input(StepInput::slots),
                 g.input(StepInput::sequences)}));
      return;
    }
    const bool sloped = shape.slope > 0;
    const auto weight = [&] { return sloped ? kNoValue : b.weight(DType::f32, shape.heads); };
    const ValueId step = sloped ? kNoValue : g.slice(all, width + 2 * each, shape.heads);
    const ValueId a = sloped ? kNoValue : b.decays(shape.heads);
    const ValueId bias = weight();
    g.output(g.add(op::SsmScan{0, 16, shape.slope},
                   {part(0, width, shape.heads), part(width, each, shape.groups),
                    part(width + each, each, shape.groups), step, a, bias, weight(),
                    g.input(StepInput::slots), g.input(StepInput::sequences)}));
  };
  all.push_back(std::move(c));
}

void cases(std::vector<OpCase>& all) {
  for (const Shape& shape : {Shape{16, 2, 8, 6},
                             {16, 1, 16, 8},
                             {37, 3, 19, 3},
                             {128, 1, 64, 4},
                             {64, 2, 80, 2},
                             {37, 6, 37, 6, 0.7f},
                             {96, 3, 96, 3, 1.0f},
                             {16, 1, 200, 1, 0, true},
                             {9, 1, 37, 1, 0, true},
                             {21, 2, 64, 4, 0, true},
                             {128, 1, 19, 1, 0, true}}) {
    for (const auto& [rows, sequences] : {std::pair{1, 1}, {2, 1}, {3, 3}, {33, 2}}) {
      add_case(all, shape, rows, sequences);
    }
  }
  add_case(all, {256, 1, 64, 2}, 3, 1);
}

}  // namespace

const OpDef& ssm_scan_op() {
  static const OpDef def{OpId::SsmScan, "ssm_scan", infer, reference, cases};
  return def;
}

}  // namespace infer
