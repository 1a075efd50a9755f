#include "engine/model/shared_kv_decoder.h"

#include <cmath>
#include <utility>

namespace infer {
namespace {

constexpr int64_t kMostSharedWidth = int64_t{1} << 20;

}  // namespace

float read_output_scale(HparamReader& r, int64_t layer) {
  const std::string name = block_name(layer, "layer_output_scale.weight");
  const Weight* weight = r.source().find(name);
  if (weight == nullptr) return 1.0f;
  float scale = 1.0f;
  if (weight->desc.type != DType::f32 || weight->desc.elements() != 1) {
    r.set_error(error(StatusCode::bad_file, "{}: tensor '{}': expected F32 [1], found {}",
                      r.metadata().source(), name, to_string(weight->desc)));
    return scale;
  }
  Status read = r.source().read(weight->place, 0, std::as_writable_bytes(std::span(&scale, 1)));
  if (!read.ok()) r.set_error(std::move(read));
  return scale;
}

SharedKvDecoder::SharedKvDecoder(HparamReader& r, const Absent& absent)
    : DecoderModel(r, op::Rope::Style::half_split) {
  glu.kind = op::Glu::Kind::gelu_tanh;
  embedding_scale = std::sqrt(static_cast<float>(params.embedding));
  logit_softcap = static_cast<float>(r.get_float("final_logit_softcapping", 30.0));
  token_width_ = r.get_int("embedding_length_per_layer_input", 0, 0, kMostSharedWidth);
  read_layers(r, absent);
}

void SharedKvDecoder::read_layers(HparamReader& r, const Absent& absent) {
  const int64_t narrow =
      r.get_int("attention.key_length_swa", params.head_dim, 1, kMostSharedWidth);
  for (const auto& [key, head] : {std::pair{"attention.value_length", params.head_dim},
                                  {"attention.value_length_swa", narrow}}) {
    if (const int64_t found = r.get_int(key, head, 1, kMostSharedWidth); found != head) {
      r.set_error(error(StatusCode::bad_file, "{}: {}: expected {}, found {}",
                        r.metadata().source(), key, head, found));
    }
  }
  RopeSpec local = unscaled(info_.ropes[0], r.get_float("rope.freq_base_swa", 10000.0));
  local.pairs = static_cast<int32_t>(r.get_int("rope.dimension_count_swa", narrow, 2, narrow) / 2);
  info_.ropes.push_back(local);
  const auto window =
      static_cast<int32_t>(r.get_int("attention.sliding_window", 512, 1, INT32_MAX));
  const std::vector<bool> sliding = r.sliding_layers(params.layers, absent.period);
  const int64_t own =
      params.layers - r.get_int("attention.shared_kv_layers", absent.shared, 0, params.layers - 1);
  for (int64_t i = 0; i < params.layers; ++i) {
    const bool slides = sliding[static_cast<size_t>(i)];
    Layer layer{slides ? narrow : params.head_dim, params.kv_heads[static_cast<size_t>(i)], i,
                slides ? window : 0, slides ? 1 : 0};
    KvLayerShape& shape = info_.kv_layers[static_cast<size_t>(i)];
    shape = {static_cast<int32_t>(layer.kv_heads), static_cast<int32_t>(layer.head),
             static_cast<int32_t>(layer.head), layer.window};
    shape.layer = static_cast<int32_t>(i);
    if (i >= own) {
      layer.source = own - 1;
      while (layer.source >= 0 && sliding[static_cast<size_t>(layer.source)] != slides) {
        --layer.source;
      }
      shape.heads = 0;  // it stores nothing
      if (layer.source < 0) {
        r.set_error(error(StatusCode::bad_file,
                          "{}: attention.shared_kv_layers: expected a layer like layer {} that "
                          "stores keys, found none",
                          r.metadata().source(), i));
        layer.source = i;
      }
    }
    layers_.push_back(layer);
  }
}

ValueId SharedKvDecoder::attend(ModelBuilder& m, ValueId x, int64_t layer) const {
  const Layer& l = layers_[static_cast<size_t>(layer)];
  const auto name = [&](const char* part) { return block_name(layer, part); };
  const auto head_norm = [&](ValueId v, const char* part) {
    return m.rms_norm(v, name(part) + ".weight", params.eps);
  };
  const auto style = op::Rope::Style::half_split;
  ValueId q = m.g.split_heads(m.linear(x, name("attn_q"), params.heads * l.head), params.heads);
  q = m.rope(head_norm(q, "attn_q_norm"), style, l.rope);
  ValueId k = kNoValue;
  ValueId v = kNoValue;
  const op::Attention attention{static_cast<int32_t>(l.source), 1.0f, 0.0f, l.window};
  if (l.source == layer) {
    k = m.g.split_heads(m.linear(x, name("attn_k"), l.kv_heads * l.head), l.kv_heads);
    v = k;  // unless there is a projection of their own
    if (m.has(name("attn_v.weight"))) {
      v = m.g.split_heads(m.linear(x, name("attn_v"), l.kv_heads * l.head), l.kv_heads);
    }
    k = m.rope(head_norm(k, "attn_k_norm"), style, l.rope);
    v = m.g.add(op::RmsNorm{params.eps}, {v, kNoValue});
  }
  return m.linear(m.attention(q, k, v, attention), name("attn_output"), params.embedding);
}

ValueId SharedKvDecoder::token_inputs(ModelBuilder& m, ValueId x) const {
  if (token_width_ == 0) return kNoValue;
  const int64_t width = token_width_ * params.layers;
  const ValueId table = m.weight("per_layer_token_embd.weight", {width, params.vocabulary});
  const float root = std::sqrt(static_cast<float>(token_width_));
  const ValueId own = m.g.add(op::Embed{root}, {m.text_tokens(), table});
  const float shrink = 1.0f / std::sqrt(static_cast<float>(params.embedding));
  ValueId projected = m.linear(x, "per_layer_model_proj", width);
  projected = m.g.split_heads(m.g.add(op::Scale{shrink}, {projected}), params.layers);
  projected = m.rms_norm(projected, "per_layer_proj_norm.weight", params.eps);
  return m.g.add(op::Scale{std::sqrt(0.5f)}, {m.add(m.g.merge_heads(projected), own)});
}

}  // namespace infer
