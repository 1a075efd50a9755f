#include "engine/ops/op.h"
#include "engine/ops/reference.h"
#include "engine/quant/quant.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams&, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("matmul", in, 4, {0, 1}));
  const TensorDesc& x = in[0]->desc;
  const TensorDesc& w = in[1]->desc;
  const bool bias_good =
      in[2] == nullptr || (in[2]->desc.type == DType::f32 && in[2]->desc.shape[0] == w.shape[1]);
  const bool scale_good = in[3] == nullptr || in[3]->desc.type == DType::f32;
  INFER_CHECK_R(check_shape("matmul",
                            x.type == DType::f32 && x.shape[1] == 1 && x.shape[0] == w.shape[0] &&
                                w.shape[2] == 1 && bias_good && scale_good,
                            "x f32 [k, 1, rows], W [k, n], bias f32 [n], scale f32 [1]", in));
  return std::vector{made(DType::f32, w.shape[1], 1, *in[0])};
}

void reference(const RefCall& call) {
  const TensorRef& x = call.inputs[0];
  const TensorRef& w = call.inputs[1];
  const TensorRef& bias = call.inputs[2];
  const TensorRef& scale = call.inputs[3];
  const double factor = scale.data == nullptr ? 1.0 : *scale.row<float>(0, 0);
  const TensorRef& out = call.outputs[0];
  std::vector<float> row(static_cast<size_t>(w.desc.shape[0]));
  for (int64_t n = 0; n < w.desc.shape[1]; ++n) {
    quant_traits(w.desc.type).decode(w.row<std::byte>(n, 0), row.data(), w.desc.shape[0]);
    const double b = bias.data == nullptr ? 0.0 : bias.row<float>(0, 0)[n];
    for (int64_t r = 0; r < x.desc.shape[2]; ++r) {
      out.row<float>(0, r)[n] =
          static_cast<float>(factor * dot_f64(row.data(), x.row<float>(0, r), w.desc.shape[0]) + b);
    }
  }
}

/// Rows of few elements, as the second matrices of adapters have, with a sum behind them.
void short_cases(std::vector<OpCase>& all) {
  constexpr int64_t kWide = 50;
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const int64_t k : {4, 16, 24, 64}) {
      for (const int64_t rows : {1, 3, 33}) {
        OpCase c;
        c.name = std::string(dtype_info(type).ident) + " product of " + std::to_string(k) +
                 " and sum rows " + std::to_string(rows);
        c.rows = rows;
        c.tolerance = quantised_tolerance(type);
        c.build = [type, k](CaseBuilder& b) {
          const ValueId residual = b.activations(kWide);
          const ValueId w = b.weight(type, k, kWide);
          const ValueId y = b.graph().add(op::Matmul{}, {b.activations(k), w, kNoValue, kNoValue});
          b.graph().output(b.graph().add(op::Add{0.5f}, {residual, y}));
        };
        all.push_back(std::move(c));
      }
    }
  }
}

/// What devices may compute as one: a norm before products of several types, an activation of two
/// products or a sum with a residual behind them.
void fused_cases(int64_t rows, std::vector<OpCase>& all) {
  constexpr int64_t kDim = 256;
  constexpr int64_t kWide = 272;
  const auto add_case = [&](const char* name, std::function<void(CaseBuilder&)> build) {
    OpCase c;
    c.name = name + std::string(" rows ") + std::to_string(rows);
    c.rows = rows;
    c.tolerance = quantised_tolerance(DType::q4_k);
    c.build = std::move(build);
    all.push_back(std::move(c));
  };
  const auto product = [](CaseBuilder& b, ValueId x, DType type, int64_t n) {
    return b.graph().add(op::Matmul{}, {x, b.weight(type, kDim, n), kNoValue, kNoValue});
  };
  add_case("norm and three products", [=](CaseBuilder& b) {
    const ValueId norm = b.weight(DType::f32, kDim);
    const ValueId x = b.graph().add(op::RmsNorm{}, {b.activations(kDim), norm});
    const ValueId q = product(b, x, DType::q4_k, kWide);
    const ValueId k = product(b, x, DType::q6_k, 40);
    b.graph().output(q);
    b.graph().output(k);
    b.graph().output(product(b, x, DType::q8_0, 41));
  });
  add_case("norm, two products and an activation", [=](CaseBuilder& b) {
    const ValueId norm = b.weight(DType::f32, kDim);
    const ValueId x = b.graph().add(op::RmsNorm{}, {b.activations(kDim), norm});
    const ValueId gate = product(b, x, DType::q4_0, kWide);
    const ValueId up = product(b, x, DType::q8_0, kWide);
    b.graph().output(b.graph().add(op::Glu{}, {gate, up}));
  });
  add_case("product and sum", [=](CaseBuilder& b) {
    const ValueId residual = b.activations(kWide);
    const ValueId y = product(b, b.activations(kDim), DType::q5_k, kWide);
    b.graph().output(b.graph().add(op::Add{}, {residual, y}));
  });
}

void cases(std::vector<OpCase>& all) {
  for (const DTypeInfo& info : all_dtypes()) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      for (const int64_t n : {1, 7, 50}) {
        if (n == 1 && rows < 33) continue;  // a relative error of few results says little
        OpCase c;
        const int64_t blocks = info.block_elements == 1 ? 77 : n == 7 ? 5 : 2;
        c.name =
            std::string(info.ident) + " n " + std::to_string(n) + " rows " + std::to_string(rows);
        c.rows = rows;
        c.tolerance = quantised_tolerance(info.type);
        c.build = [type = info.type, blocks, n](CaseBuilder& b) {
          const int64_t k = dtype_info(type).block_elements * blocks;
          const ValueId x = b.activations(k);
          const ValueId w = b.weight(type, k, n);
          const ValueId bias = n == 7 ? b.weight(DType::f32, n) : kNoValue;
          const ValueId scale = n == 7 ? b.weight(DType::f32, 1) : kNoValue;
          b.graph().output(b.graph().add(op::Matmul{}, {x, w, bias, scale}));
        };
        all.push_back(std::move(c));
      }
    }
  }
  short_cases(all);
  for (const int64_t rows : {1, 3, 33}) fused_cases(rows, all);
}

}  // namespace

const OpDef& matmul_op() {
  static const OpDef def{OpId::Matmul, "matmul", infer, reference, cases};
  return def;
}

}  // namespace infer
