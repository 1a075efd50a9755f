#include "engine/ops/op.h"
#include "engine/ops/reference.h"
#include "engine/quant/quant.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("moe_matmul", in, 5, {0, 1, 2}));
  const TensorDesc& x = in[0]->desc;
  const TensorDesc& w = in[1]->desc;
  const TensorDesc& ids = in[2]->desc;
  const bool bias_good =
      in[3] == nullptr || (in[3]->desc.type == DType::f32 && in[3]->desc.shape[0] == w.shape[1] &&
                           in[3]->desc.shape[1] == w.shape[2]);
  const bool scale_good =
      in[4] == nullptr || (in[4]->desc.type == DType::f32 && in[4]->desc.shape[0] == w.shape[2]);
  INFER_CHECK_R(
      check_shape("moe_matmul",
                  x.type == DType::f32 && x.shape[0] == w.shape[0] &&
                      (x.shape[1] == 1 || x.shape[1] == ids.shape[0]) && ids.type == DType::i32 &&
                      bias_good && scale_good,
                  "x f32 [k, 1 or used, rows], W [k, n, experts], ids i32 [used, 1, rows], "
                  "bias f32 [n, experts], scale f32 [experts]",
                  in));
  return std::vector{made(DType::f32, w.shape[1], ids.shape[0], *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& w = call.inputs[1];
  const TensorRef& ids = call.inputs[2];
  const TensorRef& bias = call.inputs[3];
  const TensorRef& scale = call.inputs[4];
  const TensorRef& out = call.outputs[0];
  const int64_t k = w.desc.shape[0];
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
    for (int64_t e = 0; e < ids.desc.shape[0]; ++e) {
      const int32_t expert = ids.row<int32_t>(0, r)[e];
      const double factor = scale.data == nullptr ? 1.0 : scale.row<float>(0, 0)[expert];
      const float* in = x.row<float>(x.desc.shape[1] == 1 ? 0 : e, r);
      for (int64_t n = 0; n < w.desc.shape[1]; ++n) {
        quant_traits(w.desc.type).decode(w.row<std::byte>(n, expert), row.data(), k);
        const double b = bias.data == nullptr ? 0.0 : bias.row<float>(expert, 0)[n];
        out.row<float>(e, r)[n] = static_cast<float>(factor * dot_f64(row.data(), in, k) + b);
      }
    }
  }
}

void cases(std::vector<OpCase>& all) {
  for (const DTypeInfo& info : all_dtypes()) {
    for (const int64_t rows : {1, 3, 33}) {
      for (const bool per_expert : {false, true}) {
        OpCase c;
        c.name = std::string(info.ident) + (per_expert ? " inputs per expert" : "") + " rows " +
                 std::to_string(rows);
        c.rows = rows;
        c.tolerance = quantised_tolerance(info.type);
        c.build = [type = info.type, per_expert](CaseBuilder& b) {
          const int64_t k = dtype_info(type).block_elements * (is_quantised(type) ? 2 : 45);
          const ValueId x = b.activations(k, per_expert ? 3 : 1);
          const ValueId w = b.weight(type, k, 9, 5);
          const ValueId ids = b.indices(3, 5);
          const ValueId bias = per_expert ? b.weight(DType::f32, 9, 5) : kNoValue;
          const ValueId scale = per_expert ? b.weight(DType::f32, 5) : kNoValue;
          b.graph().output(b.graph().add(op::MoeMatmul{}, {x, w, ids, bias, scale}));
        };
        all.push_back(std::move(c));
      }
    }
  }
  for (const int64_t rows : {1, 3, 33}) {  // what devices may compute as one
    OpCase c;
    c.name = "two products and an activation rows " + std::to_string(rows);
    c.rows = rows;
    c.tolerance = quantised_tolerance(DType::q4_k);
    c.build = [](CaseBuilder& b) {
      const ValueId x = b.activations(256);
      const ValueId ids = b.indices(3, 5);
      const auto product = [&](DType type) {
        const ValueId w = b.weight(type, 256, 40, 5);
        return b.graph().add(op::MoeMatmul{}, {x, w, ids, kNoValue, kNoValue});
      };
      const ValueId gate = product(DType::q4_k);
      b.graph().output(b.graph().add(op::Glu{}, {gate, product(DType::q8_0)}));
    };
    all.push_back(std::move(c));
  }
}

}  // namespace

const OpDef& moe_matmul_op() {
  static const OpDef def{OpId::MoeMatmul, "moe_matmul", infer, reference, cases};
  return def;
}

}  // namespace infer
