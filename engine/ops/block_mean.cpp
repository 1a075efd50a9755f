#include "engine/ops/op.h"
#include "engine/ops/recurrent.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry& kv) {
  INFER_CHECK_R(check_inputs("block_mean", in, 3, {0, 1, 2}));
  const auto& p = std::get<op::BlockMean>(params);
  const TensorDesc& x = in[0]->desc;
  INFER_CHECK_R(check_shape("block_mean", x.type == DType::f32 && x.shape[1] == 1 && p.block >= 1,
                            "x f32 [d0, 1, rows], blocks of at least 1", in));
  INFER_CHECK_R(check_state("block_mean", in, 1, kv, p.kv_layer, x.shape[0]));
  return std::vector{made(DType::f32, x.shape[0], 1, *in[0])};
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::BlockMean>(call.params);
  const TensorRef& x = call.inputs[0];
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    const int32_t place = *call.inputs[1].row<int32_t>(0, r) % p.block;
    float* sums = state_of(call, p.kv_layer, 1, r);
    for (int64_t i = 0; i < x.desc.shape[0]; ++i) {
      sums[i] = (place == 0 ? 0.0f : sums[i]) + x.row<float>(0, r)[i];
      call.outputs[0].row<float>(0, r)[i] = sums[i] / static_cast<float>(place + 1);
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const auto& [width, block] : {std::pair{64, 4}, {37, 5}, {128, 64}, {70, 1}}) {
    for (const auto& [rows, sequences] : {std::pair{1, 1}, {2, 1}, {3, 3}, {33, 2}, {150, 1}}) {
      OpCase c;
      c.name = std::to_string(width) + " in blocks of " + std::to_string(block) + " rows " +
               std::to_string(rows) + " sequences " + std::to_string(sequences);
      c.rows = rows;
      c.sequences = sequences;
      c.kv.layers = {state_shape(width)};
      c.build = [width = width, block = block](CaseBuilder& b) {
        GraphBuilder& g = b.graph();
        const ValueId x = g.slice(b.activations(width + 5), 2, width);
        g.output(g.add(op::BlockMean{0, block},
                       {x, g.input(StepInput::slots), g.input(StepInput::sequences)}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& block_mean_op() {
  static const OpDef def{OpId::BlockMean, "block_mean", infer, reference, cases};
  return def;
}

}  // namespace infer
