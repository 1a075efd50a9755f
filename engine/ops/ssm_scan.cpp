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
  const auto one_each = [&](size_t i) {
    if (p.slope > 0) return in[i] == nullptr;
    return in[i] != nullptr && in[i]->desc.type == DType::f32 && in[i]->desc.shape[0] == heads;
  };
  INFER_CHECK_R(check_shape(
      "ssm_scan",
      x.type == DType::f32 && b.type == DType::f32 && in[2]->desc.type == DType::f32 &&
          b.same_shape(in[2]->desc) && heads % b.shape[1] == 0 && one_each(3) && one_each(4) &&
          one_each(5) && one_each(6) && p.slope >= 0 && p.at >= 0 && p.at % kStatePad == 0,
      "x f32 [head, heads, rows], b, c f32 [n, groups, rows], step, a, bias, d of heads, or none "
      "with a slope",
      in));
  INFER_CHECK_R(check_state("ssm_scan", in, 7, kv, p.kv_layer,
                            p.at + scan_state(heads, b.shape[0], x.shape[0])));
  return std::vector{made(DType::f32, x.shape[0], heads, *in[0])};
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
};

void add_case(std::vector<OpCase>& all, const Shape& shape, int64_t rows, int32_t sequences) {
  OpCase c;
  c.name = std::to_string(shape.heads) + ":" + std::to_string(shape.groups) + " heads of " +
           std::to_string(shape.n) + " x " + std::to_string(shape.head) +
           (shape.slope > 0 ? " sloped" : "") + " rows " + std::to_string(rows) + " sequences " +
           std::to_string(sequences);
  c.rows = rows;
  c.sequences = sequences;
  c.tolerance = 1e-10;
  c.kv.layers = {state_shape(16 + scan_state(shape.heads, shape.n, shape.head))};
  c.build = [shape](CaseBuilder& b) {
    GraphBuilder& g = b.graph();
    const int64_t width = shape.head * shape.heads;
    const int64_t each = shape.n * shape.groups;
    const ValueId all = b.activations(width + 2 * each + shape.heads, 1, 0.5f);
    const auto part = [&](int64_t begin, int64_t length, int64_t heads) {
      return g.split_heads(g.slice(all, begin, length), heads);
    };
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
                             {96, 3, 96, 3, 1.0f}}) {
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
