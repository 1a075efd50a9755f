#include "engine/model/decoder.h"

#include <algorithm>
#include <cmath>

namespace infer {

namespace {

int32_t cache_of_layer(const ModelInfo& info, int64_t layer) {
  const auto found = std::ranges::find(info.kv_layers, layer, &KvLayerShape::layer);
  return static_cast<int32_t>(found - info.kv_layers.begin());
}

}  // namespace

DecoderModel::DecoderModel(HparamReader& r, op::Rope::Style style, bool recurrent, bool turns) {
  params = read_decoder_params(r, recurrent);
  info_ = decoder_info(r, params);
  if (is_head()) info_.takes_hidden = params.embedding;
  if (turns) {
    info_.ropes = {read_rope(r, params.head_dim)};
    info_.ropes[0].factors = weight_index(r.source(), "rope_freqs.weight");
  }
  AttentionBlock block;
  block.rotate = turns;
  block.head_dim = params.head_dim;
  block.value_dim = params.value_dim;
  const double scale = r.get_float("attention.scale", 0);  // 0: the usual one
  block.scale = static_cast<float>(
      scale != 0 ? scale : 1.0 / std::sqrt(static_cast<double>(params.head_dim)));
  block.style = style;
  block.eps = params.eps;
  for (int64_t layer = 0; layer < params.layers; ++layer) {
    block.layer = layer;
    block.heads = params.layer_heads[static_cast<size_t>(layer)];
    block.kv_heads = params.kv_heads[static_cast<size_t>(layer)];
    block.cache = cache_of_layer(info_, layer);
    attention.push_back(block);
  }
  states.assign(attention.size(), -1);
  experts.experts = params.experts;
  experts.width = r.get_int("expert_feed_forward_length", params.feed_forward.front(), 0, 1 << 20);
  experts.shared_width = r.get_int("expert_shared_feed_forward_length", 0, 0, 1 << 20);
  experts.route.used = static_cast<int32_t>(params.experts_used);
  experts.route.normalise = true;
}

void DecoderModel::set_window(int64_t layer, int32_t window) {
  AttentionBlock& block = attention[static_cast<size_t>(layer)];
  block.window = window;
  info_.kv_layers[static_cast<size_t>(block.cache)].window = window;
}

void DecoderModel::set_windows_with_rope(HparamReader& r, int64_t period) {
  const auto window = static_cast<int32_t>(r.need_int("attention.sliding_window", 1, INT32_MAX));
  const std::vector<bool> sliding = r.sliding_layers(params.layers, period);
  for (AttentionBlock& block : attention) {
    block.rotate = sliding[static_cast<size_t>(block.layer)];
    if (block.rotate) set_window(block.layer, window);
  }
}

void DecoderModel::set_windows_with_own_rope(HparamReader& r, const std::vector<bool>& sliding,
                                             double base) {
  RopeSpec rope = unscaled(info_.ropes[0], r.get_float("rope.freq_base_swa", base));
  rope.pairs = static_cast<int32_t>(
      r.get_int("rope.dimension_count_swa", 2 * rope.pairs, 2, params.head_dim) / 2);
  info_.ropes.push_back(rope);
  const auto window = static_cast<int32_t>(r.need_int("attention.sliding_window", 1, INT32_MAX));
  for (int64_t layer = params.first_layer; layer < params.layers; ++layer) {
    if (!sliding[static_cast<size_t>(layer)]) continue;
    attention[static_cast<size_t>(layer)].rope = 1;
    set_window(layer, window);
  }
}

void DecoderModel::read_clamp(HparamReader& r) {
  const double limit = r.get_float("attention.clamp_kqv", 0.0);
  if (!(limit >= 0)) {
    r.set_error(error(StatusCode::bad_file, "{}: attention.clamp_kqv: expected 0 or more, found {}",
                      r.metadata().source(), limit));
  }
  for (AttentionBlock& block : attention) block.clamp = static_cast<float>(limit);
}

void DecoderModel::set_alibi(float most, float factor) {
  info_.ropes.clear();
  for (AttentionBlock& block : attention) {
    block.rotate = false;
    block.alibi = most;
    block.alibi_factor = factor;
  }
}

void DecoderModel::read_alibi(HparamReader& r, float absent, bool turns) {
  const double most = r.get_float("attention.max_alibi_bias", absent);
  if (!(most >= 0 && most <= 1024)) {
    r.set_error(error(StatusCode::bad_file,
                      "{}: attention.max_alibi_bias: expected 0 to 1024, found {}",
                      r.metadata().source(), most));
  }
  if (most > 0 || !turns) set_alibi(static_cast<float>(most));
}

void DecoderModel::add_positions(HparamReader& r) {
  const std::string name = "position_embd.weight";
  const Weight* table = r.source().find(name);
  if (table == nullptr) {
    r.set_error(
        error(StatusCode::bad_file, "{}: tensor '{}' is missing", r.metadata().source(), name));
    return;
  }
  info_.positions = table->desc.shape[1];
  info_.context = std::min(info_.context, info_.positions);
}

void DecoderModel::drop_attention(const std::vector<bool>& layers) {
  std::erase_if(info_.kv_layers, [&](const KvLayerShape& shape) {
    return layers[static_cast<size_t>(shape.layer)];
  });
  for (AttentionBlock& block : attention) {
    const auto layer = static_cast<size_t>(block.layer);
    if (layers[layer]) block.kv_heads = params.kv_heads[layer] = 0;
    block.cache = cache_of_layer(info_, block.layer);
  }
}

void DecoderModel::add_state(int64_t layer, int64_t elements) {
  KvLayerShape shape;
  shape.layer = static_cast<int32_t>(layer);
  shape.state = elements;
  states[static_cast<size_t>(layer)] = static_cast<int32_t>(info_.kv_layers.size());
  info_.kv_layers.push_back(shape);
}

Result<std::unique_ptr<Model>> DecoderModel::finish(std::unique_ptr<DecoderModel> model,
                                                    const HparamReader& reader) {
  if (!reader.status().ok()) return tl::unexpected(reader.status());
  return model;
}

ValueId DecoderModel::attend(ModelBuilder& m, ValueId x, int64_t layer) const {
  return attention_block(m, x, attention[static_cast<size_t>(layer)]);
}

ValueId DecoderModel::feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const {
  if (m.has(block_name(layer, "ffn_gate_inp.weight"))) {
    return experts_block(m, x, layer, experts, glu);
  }
  return feed_forward_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)], glu);
}

ValueId DecoderModel::weighted(ModelBuilder& m, ValueId x, const std::string& name,
                               float eps) const {
  if (plain_norms) return m.g.add(op::LayerNorm{eps}, {x, kNoValue, kNoValue});
  // Falcon-H1 leaves the ending out.
  if (!m.has(name + ".weight") && m.has(name)) return m.rms_norm(x, name, eps);
  return layer_norms ? m.layer_norm(x, name, eps) : m.rms_norm(x, name + ".weight", eps);
}

ValueId DecoderModel::pre_norm(ModelBuilder& m, ValueId x, int64_t layer,
                               const std::string& name) const {
  return pre_norms ? weighted(m, x, block_name(layer, name.c_str()), params.eps) : x;
}

ValueId DecoderModel::post_norm(ModelBuilder& m, ValueId x, int64_t layer,
                                const std::string& name) const {
  if (!post_norms) return x;
  return weighted(m, x, block_name(layer, name.c_str()), post_eps > 0 ? post_eps : params.eps);
}

ValueId DecoderModel::add_layer(ModelBuilder& m, ValueId x, int64_t layer, bool last,
                                ValueId* rest) const {
  m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
  // Layers of DeciLM may lack one part, or both.
  const auto has = [&](const char* name) { return m.has(block_name(layer, name)); };
  const bool mixes =
      attends(layer) || states[static_cast<size_t>(layer)] >= 0 || has("attn_output.weight");
  const bool feeds = params.feed_forward[static_cast<size_t>(layer)] > 0 ||
                     has("ffn_gate_inp.weight") || has((ffn_norm_name + ".weight").c_str());
  const ValueId normed = mixes ? pre_norm(m, x, layer, attn_norm_name) : x;
  const ValueId mixed = mixes ? attend(m, normed, layer) : kNoValue;
  const auto after_attention = [&](ValueId residual, ValueId before, ValueId h) {
    m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
    const ValueId sum =
        h == kNoValue ? residual
        : normed_residual
            ? m.add(h, before, residual_scale)
            : m.add(residual, post_norm(m, h, layer, post_attention_name), residual_scale);
    if (!feeds) return sum;
    m.layer_input = residual;
    m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
    h = parallel ? before : pre_norm(m, parallel_norms ? residual : sum, layer, ffn_norm_name);
    const ValueId taken = h;
    h = feed_forward(m, h, layer);
    if (normed_residual) return m.add(h, taken, residual_scale);
    return m.add(sum, post_norm(m, h, layer, post_ffn_name), residual_scale);
  };
  if (!last) return after_attention(x, normed, mixed);
  if (rest != nullptr) *rest = after_attention(x, normed, mixed);
  // From here on only the rows whose logits are wanted.
  m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
  const ValueId h = mixes ? m.select_outputs(mixed) : kNoValue;
  const bool again = parallel || normed_residual;
  return after_attention(m.select_outputs(x), again ? m.select_outputs(normed) : normed, h);
}

void DecoderModel::output_logits(ModelBuilder& m, ValueId x) const {
  if (logit_scale != 1.0f) x = m.g.add(op::Scale{logit_scale}, {x});
  if (logit_softcap > 0) x = m.g.add(op::Softcap{logit_softcap}, {x});
  m.g.output(x, "logits");
}

void DecoderModel::build(ModelBuilder& m) const {
  if (is_head()) return build_head(m);
  ValueId x = m.embed_tokens(embedding_scale);  // [embedding, 1, rows]
  if (info_.positions > 0) {
    const ValueId table = m.weight("position_embd.weight", {params.embedding, info_.positions});
    x = m.add(x, m.g.add(op::Embed{}, {m.g.input(StepInput::slots), table}));
  }
  if (embedding_norm) x = m.g.add(op::RmsNorm{params.eps}, {x, kNoValue});
  if (!embedding_norm_name.empty()) x = weighted(m, x, embedding_norm_name, params.eps);
  ValueId all = kNoValue;
  for (int64_t layer = 0; layer < params.layers; ++layer) {
    const bool last = layer + 1 == params.layers;
    m.enter_layer(layer, x);
    x = add_layer(m, x, layer, last, m.hidden_apart() ? &all : nullptr);
    if (!last) x = m.add_images(x, layer + 1);
  }
  m.enter_layer(params.layers, m.hidden_apart() ? all : x);
  if (m.hidden_apart() && info_.hidden_layers.empty()) {
    m.return_hidden(weighted(m, all, output_norm_name, params.eps));
  }
  x = weighted(m, x, output_norm_name, params.eps);
  if (m.embeds()) return m.output_embedding(x);
  if (!m.hidden_apart()) m.return_hidden(x);
  output_logits(m, m.output_logits(x));
}

}  // namespace infer
