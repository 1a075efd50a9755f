#include <cmath>
#include <limits>

#include "engine/ops/op.h"
#include "engine/ops/recurrent.h"

namespace infer {
namespace {

int64_t parts_of(const op::BlockPool& p) { return p.overlaps ? 2 : 1; }

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry& kv) {
  INFER_CHECK_R(check_inputs("block_pool", in, 4, {0, 1, 2, 3}));
  const auto& p = std::get<op::BlockPool>(params);
  const TensorDesc& x = in[0]->desc;
  const TensorDesc& gate = in[1]->desc;
  const int64_t parts = parts_of(p);
  INFER_CHECK_R(check_shape("block_pool",
                            x.type == DType::f32 && x.shape[1] == 1 && x.shape[0] % parts == 0 &&
                                gate.type == DType::f32 && gate.shape[0] == x.shape[0] &&
                                gate.shape[1] == 1 && p.block >= 1 && p.at % kStatePad == 0,
                            "x and gate f32 [d, 1, rows] or [2·d, 1, rows]", in));
  const int64_t d = x.shape[0] / parts;
  INFER_CHECK_R(check_state("block_pool", in, 2, kv, p.kv_layer, p.at + 3 * d * parts));
  return std::vector{made(DType::f32, d, 1, *in[0])};
}

/// Takes a gate and an element into a running softmax.
void take(float* run, int64_t d, double gate, double x) {
  const double before = run[0];
  const double best = std::max(before, gate);
  const double keep = std::exp(before - best);
  const double share = std::exp(gate - best);
  run[0] = static_cast<float>(best);
  run[d] = static_cast<float>(run[d] * keep + share);
  run[2 * d] = static_cast<float>(run[2 * d] * keep + share * x);
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::BlockPool>(call.params);
  const TensorRef& x = call.inputs[0];
  const int64_t d = call.outputs[0].desc.shape[0];
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    const int32_t slot = *call.inputs[2].row<int32_t>(0, r);
    const float* gate = call.inputs[1].row<float>(0, r);
    for (int64_t i = 0; i < d; ++i) {
      float* own = state_of(call, p.kv_layer, 2, r) + p.at + i;
      float* next = own + 3 * d;
      if (slot % p.block == 0) {
        const float none[] = {std::numeric_limits<float>::lowest(), 0.0f, 0.0f};
        for (int64_t part = 0; part < 3; ++part) {
          const bool before = p.overlaps && slot > 0;
          own[part * d] = before ? next[part * d] : none[part];
          if (p.overlaps) next[part * d] = none[part];
        }
      }
      const int64_t last = p.overlaps ? d + i : i;
      take(own, d, gate[last], x.row<float>(0, r)[last]);
      if (p.overlaps) take(next, d, gate[i], x.row<float>(0, r)[i]);
      call.outputs[0].row<float>(0, r)[i] =
          static_cast<float>(static_cast<double>(own[2 * d]) / own[d]);
    }
  }
}

void cases(std::vector<OpCase>& all) {
  struct Shape {
    int64_t width;
    int32_t block;
    bool overlaps;
  };
  constexpr Shape kShapes[] = {
      {64, 4, true}, {37, 5, false}, {70, 7, true}, {128, 128, false}, {33, 1, true}};
  for (const Shape& shape : kShapes) {
    for (const auto& [rows, sequences] : {std::pair{1, 1}, {2, 1}, {3, 3}, {33, 2}, {150, 1}}) {
      OpCase c;
      c.name = std::to_string(shape.width) + " in blocks of " + std::to_string(shape.block) +
               (shape.overlaps ? " that overlap" : "") + " rows " + std::to_string(rows) +
               " sequences " + std::to_string(sequences);
      c.rows = rows;
      c.sequences = sequences;
      const int64_t parts = shape.overlaps ? 2 : 1;
      const int64_t at = 2 * kStatePad;
      c.kv.layers = {state_shape(at + 3 * shape.width * parts)};
      c.build = [shape, parts, at](CaseBuilder& b) {
        GraphBuilder& g = b.graph();
        const int64_t width = shape.width * parts;
        const ValueId x = g.slice(b.activations(width + 5), 2, width);
        const ValueId gate = b.activations(width, 1, 3.0f);
        g.output(g.add(op::BlockPool{0, shape.block, shape.overlaps, at},
                       {x, gate, g.input(StepInput::slots), g.input(StepInput::sequences)}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& block_pool_op() {
  static const OpDef def{OpId::BlockPool, "block_pool", infer, reference, cases};
  return def;
}

}  // namespace infer
