#include "engine/ops/op.h"
#include "engine/ops/reference.h"
#include "engine/quant/quant.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("head_matmul", in, 2, {0, 1}));
  const TensorDesc& x = in[0]->desc;
  const TensorDesc& w = in[1]->desc;
  INFER_CHECK_R(check_shape(
      "head_matmul", x.type == DType::f32 && x.shape[0] == w.shape[0] && x.shape[1] == w.shape[2],
      "x f32 [k, heads, rows], W [k, n, heads]", in));
  return std::vector{made(DType::f32, w.shape[1], x.shape[1], *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& w = call.inputs[1];
  const TensorRef& out = call.outputs[0];
  const int64_t k = w.desc.shape[0];
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t h = 0; h < w.desc.shape[2]; ++h) {
    for (int64_t n = 0; n < w.desc.shape[1]; ++n) {
      quant_traits(w.desc.type).decode(w.row<std::byte>(n, h), row.data(), k);
      for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
        out.row<float>(h, r)[n] = static_cast<float>(dot_f64(row.data(), x.row<float>(h, r), k));
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const DTypeInfo& info : all_dtypes()) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      for (const int64_t heads : {1, 3}) {
        OpCase c;
        c.name = std::string(info.ident) + " heads " + std::to_string(heads) + " rows " +
                 std::to_string(rows);
        c.rows = rows;
        c.tolerance = quantised_tolerance(info.type);
        c.build = [type = info.type, heads](CaseBuilder& b) {
          // Part of each head, as where only some of its elements take part.
          const int64_t k = dtype_info(type).block_elements * (is_quantised(type) ? 2 : 45);
          const ValueId x = b.graph().slice(b.activations(k + 12, heads), 4, k);
          b.graph().output(b.graph().add(op::HeadMatmul{}, {x, b.weight(type, k, 21, heads)}));
        };
        all.push_back(std::move(c));
      }
    }
  }
}

}  // namespace

const OpDef& head_matmul_op() {
  static const OpDef def{OpId::HeadMatmul, "head_matmul", infer, reference, cases};
  return def;
}

}  // namespace infer
