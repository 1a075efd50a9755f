#include "engine/model/decoder.h"

#include <cmath>

namespace infer {

DecoderModel::DecoderModel(HparamReader& r, op::Rope::Style style) {
  params = read_decoder_params(r);
  info_ = decoder_info(r, params);
  info_.ropes = {read_rope(r, params.head_dim)};
  info_.ropes[0].factors = weight_index(r.source(), "rope_freqs.weight");
  AttentionBlock block;
  block.heads = params.heads;
  block.head_dim = params.head_dim;
  block.value_dim = params.value_dim;
  block.scale = static_cast<float>(
      r.get_float("attention.scale", 1.0 / std::sqrt(static_cast<double>(params.head_dim))));
  block.style = style;
  block.eps = params.eps;
  for (int64_t layer = 0; layer < params.layers; ++layer) {
    block.layer = layer;
    block.kv_heads = params.kv_heads[static_cast<size_t>(layer)];
    attention.push_back(block);
  }
  experts.experts = params.experts;
  experts.width = r.get_int("expert_feed_forward_length", params.feed_forward.front(), 0, 1 << 20);
  experts.shared_width = r.get_int("expert_shared_feed_forward_length", 0, 0, 1 << 20);
  experts.route.used = static_cast<int32_t>(params.experts_used);
  experts.route.normalise = true;
}

void DecoderModel::set_window(int64_t layer, int32_t window) {
  attention[static_cast<size_t>(layer)].window = window;
  info_.kv_layers[static_cast<size_t>(layer)].window = window;
}

Result<std::unique_ptr<Model>> DecoderModel::finish(std::unique_ptr<DecoderModel> model,
                                                    const HparamReader& reader) {
  if (!reader.status().ok()) return tl::unexpected(reader.status());
  return model;
}

ValueId DecoderModel::attend(ModelBuilder& m, ValueId x, int64_t layer) const {
  return attention_block(m, x, attention[static_cast<size_t>(layer)]);
}

void DecoderModel::build(ModelBuilder& m) const {
  const auto norm = [&](ValueId x, int64_t layer, const std::string& name, bool wanted) {
    return wanted ? m.rms_norm(x, block_name(layer, name.c_str()) + ".weight", params.eps) : x;
  };
  ValueId x = m.embed_tokens(embedding_scale);  // [embedding, 1, rows]
  for (int64_t layer = 0; layer < params.layers; ++layer) {
    const auto i = static_cast<size_t>(layer);
    m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
    ValueId h = norm(x, layer, "attn_norm", pre_norms);
    h = attend(m, h, layer);
    if (layer + 1 == params.layers) {  // from here on only the rows whose logits are wanted
      h = m.select_outputs(h);
      x = m.select_outputs(x);
    }
    h = norm(h, layer, "post_attention_norm", post_norms);
    x = m.add(x, h, residual_scale);

    const bool routed = m.has(block_name(layer, "ffn_gate_inp.weight"));
    m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
    h = norm(x, layer, ffn_norm_name, pre_norms);
    h = routed ? experts_block(m, h, layer, experts, glu)
               : feed_forward_block(m, h, layer, params.feed_forward[i], glu);
    h = norm(h, layer, "post_ffw_norm", post_norms);
    x = m.add(x, h, residual_scale);
  }
  x = m.rms_norm(x, "output_norm.weight", params.eps);
  x = m.output_logits(x);
  if (logit_scale != 1.0f) x = m.g.add(op::Scale{logit_scale}, {x});
  if (logit_softcap > 0) x = m.g.add(op::Softcap{logit_softcap}, {x});
  m.g.output(x, "logits");
}

}  // namespace infer
