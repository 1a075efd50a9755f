#include <algorithm>

#include "engine/ops/op.h"
#include "engine/quant/quant.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("embed", in, 2, {0, 1}));
  INFER_CHECK_R(check_shape(
      "embed",
      in[0]->desc.type == DType::i32 && in[0]->desc.shape[0] == 1 && in[1]->desc.shape[2] == 1,
      "tokens i32 [1, 1, rows], table [n, vocabulary]", in));
  return std::vector{made(DType::f32, in[1]->desc.shape[0], 1, *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& tokens = call.inputs[0];
  const TensorRef& table = call.inputs[1];
  const TensorRef& out = call.outputs[0];
  const float scale = std::get<op::Embed>(call.params).scale;
  for (int64_t r = 0; r < out.desc.shape[2]; ++r) {
    float* y = out.row<float>(0, r);
    if (*tokens.row<int32_t>(0, r) < 0) {
      std::fill_n(y, out.desc.shape[0], 0.0f);
      continue;
    }
    quant_traits(table.desc.type)
        .decode(table.row<std::byte>(*tokens.row<int32_t>(0, r), 0), y, out.desc.shape[0]);
    for (int64_t i = 0; i < out.desc.shape[0]; ++i) y[i] *= scale;
  }
}

void cases(std::vector<OpCase>& all) {
  for (const DTypeInfo& info : all_dtypes()) {
    for (const int64_t rows : {1, 3, 33}) {
      OpCase c;
      c.name = std::string(info.ident) + " rows " + std::to_string(rows);
      c.rows = rows;
      // Devices may keep the float32 scales of these in binary16, which is off by 2⁻¹¹ at most.
      const bool rounded = info.type == DType::nf4 || info.type == DType::fp4;
      c.tolerance = rounded ? 0x1p-22 : 0;
      c.build = [type = info.type](CaseBuilder& b) {
        const ValueId tokens = b.indices(1, 19, -1);
        const ValueId table = b.weight(type, dtype_info(type).block_elements * 3, 19);
        b.graph().output(b.graph().add(op::Embed{0.5f}, {tokens, table}));
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& embed_op() {
  static const OpDef def{OpId::Embed, "embed", infer, reference, cases};
  return def;
}

}  // namespace infer
