#include <bit>
#include <cmath>

#include "engine/ops/op.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("hadamard", in, 1, {0}));
  const int64_t block = std::get<op::Hadamard>(params).block;
  const TensorDesc& x = in[0]->desc;
  INFER_CHECK_R(check_shape(
      "hadamard",
      x.type == DType::f32 && block > 0 && (block & (block - 1)) == 0 && x.shape[0] % block == 0,
      "x f32 [d0, d1, rows] and a power of two that divides d0", in));
  return std::vector{made(DType::f32, x.shape[0], x.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const int64_t block = std::get<op::Hadamard>(call.params).block;
  const TensorRef& out = call.outputs[0];
  const double scale = 1 / std::sqrt(static_cast<double>(block));
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    for (int64_t h = 0; h < out.desc.shape[1]; ++h) {
      const float* x = call.inputs[0].row<float>(h, r);
      float* y = out.row<float>(h, r);
      for (int64_t i = 0; i < out.desc.shape[0]; ++i) {
        const int64_t begin = i / block * block;
        double sum = 0;
        for (int64_t j = 0; j < block; ++j) {  // the sign is that of the bits that i and j share
          const bool odd = (std::popcount(static_cast<uint64_t>((i - begin) & j)) & 1) != 0;
          sum += odd ? -x[begin + j] : x[begin + j];
        }
        y[i] = static_cast<float>(sum * scale);
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  constexpr int64_t kShapes[][2] = {{1, 37},  {2, 74},   {4, 4},     {8, 24},   {16, 48},
                                    {32, 96}, {64, 576}, {128, 128}, {256, 256}};
  for (const auto& [block, d0] : kShapes) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      OpCase c;
      c.name = "blocks of " + std::to_string(block) + " in " + std::to_string(d0) + " rows " +
               std::to_string(rows);
      c.rows = rows;
      c.build = [block, d0](CaseBuilder& b) {
        const ValueId whole = b.activations(3 * d0 + 5, 1, 8.0f);
        const ValueId x = b.graph().split_heads(b.graph().slice(whole, 5, 3 * d0), 3);
        b.graph().output(b.graph().add(op::Hadamard{block}, {x}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& hadamard_op() {
  static const OpDef def{OpId::Hadamard, "hadamard", infer, reference, cases};
  return def;
}

}  // namespace infer
