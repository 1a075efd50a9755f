#include "engine/ops/op.h"
#include "engine/quant/quant.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry& kv) {
  INFER_CHECK_R(check_inputs("kv_store", in, 4, {0, 1, 2, 3}));
  const auto layer = static_cast<size_t>(std::get<op::KvStore>(params).kv_layer);
  INFER_CHECK_R(check_shape("kv_store", layer < kv.layers.size(), "an existing layer", in));
  const KvLayerShape& shape = kv.layers[layer];
  const auto fits = [&](const TensorDesc& x, int64_t dim) {
    return x.type == DType::f32 && x.shape[0] == dim && x.shape[1] == shape.heads;
  };
  INFER_CHECK_R(
      check_shape("kv_store",
                  fits(in[0]->desc, shape.k_dim) && fits(in[1]->desc, shape.v_dim) &&
                      in[2]->desc.type == DType::i32 && in[3]->desc.type == DType::i32,
                  "k [k_dim, kv_heads, rows], v [v_dim, kv_heads, rows], slots, sequences", in));
  return std::vector<OutputDesc>();
}

void reference(const RefCall& call) {
  const auto layer = static_cast<size_t>(std::get<op::KvStore>(call.params).kv_layer);
  const KvLayerShape& shape = call.kv.layers[layer];
  const KvLayerLayout& at = call.kv_layout.layers[layer];
  const TensorRef& k = call.inputs[0];
  const TensorRef& v = call.inputs[1];
  for (int64_t r = 0; r < k.desc.shape[2]; ++r) {
    const int32_t slot = *call.inputs[2].row<int32_t>(0, r);
    const int32_t sequence = *call.inputs[3].row<int32_t>(0, r);
    if (!at.ends_block(slot)) continue;
    std::byte* page = call.pages[static_cast<size_t>(at.kind)].page(sequence, slot);
    for (int64_t h = 0; h < shape.heads; ++h) {
      const int64_t token = h * kPageTokens + at.row(slot);
      const QuantTraits& k_type = quant_traits(call.kv.k_type);
      if (at.k_element > 0) {
        std::byte* keys = page + at.k_offset + h * kPageTokens * at.k_row;
        for (int64_t i = 0; i < shape.k_dim; ++i) {
          k_type.encode(k.row<float>(h, r) + i,
                        keys + (i * kPageTokens + slot % kPageTokens) * at.k_element, 1);
        }
      } else {
        k_type.encode(k.row<float>(h, r), page + at.k_offset + token * at.k_row, shape.k_dim);
      }
      quant_traits(call.kv.v_type)
          .encode(v.row<float>(h, r), page + at.v_offset + token * at.v_row, shape.v_dim);
    }
  }
}

// Stores are seen through what attention reads back: its cases store first.
void cases(std::vector<OpCase>&) {}

}  // namespace

const OpDef& kv_store_op() {
  static const OpDef def{OpId::KvStore, "kv_store", infer, reference, cases};
  return def;
}

}  // namespace infer
