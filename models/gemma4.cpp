// Gemma 4 (text): norms before and after each part, of every q and k head, and without weights of
// every v head; scores are not scaled. Layers with a sliding window have heads and RoPE of their
// own; in the others only part of the pairs turns. The last layers may attend to what earlier ones
// have stored, every layer may add a small embedding of the token itself, and experts may stand
// beside the feed-forward. Gemma Team 2026.
#include <cmath>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/shared_kv_decoder.h"

namespace infer {
namespace {

class Gemma4 final : public SharedKvDecoder {
 public:
  explicit Gemma4(HparamReader& r) : SharedKvDecoder(r, {.period = 6}) {
    // The sizes for edges, whose layers take something of the token, look back alone.
    if (token_width_ == 0) info_.sight = ImageSight::in_windows;
    experts.route = read_route(r, params, 1, true);
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      output_scales_.push_back(read_output_scale(r, layer));
    }
  }

  void build(ModelBuilder& m) const override {
    ValueId x = m.embed_tokens(embedding_scale);
    const ValueId tokens = token_inputs(m, x);
    ValueId all = kNoValue;
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      ValueId token = kNoValue;
      if (tokens != kNoValue) token = m.g.slice(tokens, layer * token_width_, token_width_);
      m.enter_layer(layer, x);
      m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
      const std::string name = block_name(layer, "attn_norm.weight");
      ValueId h = attend(m, m.rms_norm(x, name, params.eps), layer);
      if (layer + 1 == params.layers) {
        if (m.hidden_apart()) all = after_attention(m, x, h, token, layer);
        // From here on only the rows whose logits are wanted.
        m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
        h = m.select_outputs(h);
        x = m.select_outputs(x);
        if (token != kNoValue) token = m.select_outputs(token);
      }
      x = after_attention(m, x, h, token, layer);
    }
    const auto ended = [&](ValueId v) { return m.rms_norm(v, "output_norm.weight", params.eps); };
    m.enter_layer(params.layers, m.hidden_apart() ? all : x);
    if (m.hidden_apart() && info_.hidden_layers.empty()) m.return_hidden(ended(all));
    x = ended(x);
    if (m.embeds()) return m.output_embedding(x);
    if (!m.hidden_apart()) m.return_hidden(x);
    x = m.output_logits(x);
    if (logit_softcap > 0) x = m.g.add(op::Softcap{logit_softcap}, {x});
    m.g.output(x, "logits");
  }

  /// Experts, where there are any, are chosen by and take what the feed-forward takes, each under
  /// norms of its own.
  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const auto norm = [&](ValueId v, const char* name) {
      return m.rms_norm(v, block_name(layer, name), params.eps);
    };
    const int64_t width = params.feed_forward[static_cast<size_t>(layer)];
    const ValueId dense = feed_forward_block(m, norm(x, "ffn_norm.weight"), layer, width, glu);
    const std::string router = block_name(layer, "ffn_gate_inp.weight");
    if (!m.has(router)) return dense;
    const float root = std::sqrt(static_cast<float>(params.embedding));
    const ValueId scaled = m.g.add(op::Scale{1.0f / root}, {norm(x, "ffn_gate_inp.scale")});
    const ValueId logits = m.product(scaled, router, experts.experts);
    const ValueId mixed =
        routed_experts(m, norm(x, "pre_ffw_norm_2.weight"), logits, layer, experts, glu);
    return m.add(norm(dense, "post_ffw_norm_1.weight"), norm(mixed, "post_ffw_norm_2.weight"));
  }

 private:
  /// What a layer makes of x and of what its attention has made of it. `token`: what it takes of
  /// the token, or none.
  ValueId after_attention(ModelBuilder& m, ValueId x, ValueId mixed, ValueId token,
                          int64_t layer) const {
    const auto norm = [&](ValueId v, const char* name) {
      return m.rms_norm(v, block_name(layer, name) + ".weight", params.eps);
    };
    m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
    x = m.add(x, norm(mixed, "post_attention_norm"));
    m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
    x = m.add(x, norm(feed_forward(m, x, layer), "post_ffw_norm"));
    if (token != kNoValue) {
      const ValueId gate = m.linear(x, block_name(layer, "inp_gate"), token_width_);
      const ValueId h =
          m.linear(m.g.add(glu, {gate, token}), block_name(layer, "proj"), params.embedding);
      x = m.add(x, norm(h, "post_norm"));
    }
    const float scale = output_scales_[static_cast<size_t>(layer)];
    return scale != 1.0f ? m.g.add(op::Scale{scale}, {x}) : x;
  }

  std::vector<float> output_scales_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Gemma4>(r), r);
}

void map_experts(CheckpointMap& m) {
  if (!m.config.get_bool("enable_moe_block", false)) return;
  const int64_t experts = m.config.need_int("num_experts", 1, 65536);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("top_k_experts", 1, experts));
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("moe_intermediate_size", 1, kMaxWidth));
  m.layers({{"router.proj", "ffn_gate_inp"},
            {"post_feedforward_layernorm_1", "post_ffw_norm_1"},
            {"post_feedforward_layernorm_2", "post_ffw_norm_2"},
            {"pre_feedforward_layernorm_2", "pre_ffw_norm_2"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "router.scale"), block_name(i, "ffn_gate_inp.scale"));
    m.tensors.copy(layer_name(i, "router.per_expert_scale"), block_name(i, "ffn_down_exps.scale"));
    add_experts(m.tensors, i, "experts", experts);
  }
}

/// Newer configurations say what layers that see everything have otherwise layer by layer; it is
/// the same in all of them.
void read_layer_configs(CheckpointMap& m) {
  const int64_t layers = m.config.need_int("num_hidden_layers", 1, 1024);
  for (const auto& [own, usual] : {std::pair{"head_dim", "global_head_dim"},
                                   {"num_key_value_heads", "num_global_key_value_heads"}}) {
    int64_t found = 0;
    for (int64_t i = 0; i < layers; ++i) {
      const std::string key = fmt::format("per_layer_config.{}.{}", i, own);
      if (!m.config.has(key)) continue;
      const int64_t value = m.config.need_int(key, 1, kMaxWidth);
      m.config.require(found == 0 || found == value, key + " other than that of other layers");
      found = value;
    }
    if (found != 0) m.config.assume(usual, found);
  }
}

/// Heads, layers that share keys and values, and widths, by layer.
void map_layers(CheckpointMap& m) {
  const int64_t narrow = m.config.get_int("head_dim", 256, 1, kMaxWidth);
  const int64_t wide = m.config.get_int("global_head_dim", narrow, 1, kMaxWidth);
  for (const char* part : {"key", "value"}) {
    m.keys.set_int(fmt::format("attention.{}_length", part), wide);
    m.keys.set_int(fmt::format("attention.{}_length_swa", part), narrow);
  }
  m.keys.set_int("rope.dimension_count_swa", narrow);
  m.keys.set_float("rope.freq_base_swa",
                   m.config.get_float("rope_parameters.sliding_attention.rope_theta", 10000.0));
  const int64_t layers = m.layer_count();
  const int64_t shared = m.config.get_int("num_kv_shared_layers", 0, 0, layers - 1);
  m.keys.set_int("attention.shared_kv_layers", shared);
  m.keys.set_int("attention.sliding_window", m.config.get_int("sliding_window", 512, 1, INT32_MAX));
  const std::vector<bool> sliding = map_sliding_layers(m, 6);
  const int64_t heads = m.config.get_int("num_key_value_heads", 1, 1, 4096);
  const int64_t global = m.config.get_bool("attention_k_eq_v", false)
                             ? m.config.get_int("num_global_key_value_heads", heads, 1, 4096)
                             : heads;
  const int64_t width = m.config.need_int("intermediate_size", 1, kMaxWidth);
  const bool doubled = m.config.get_bool("use_double_wide_mlp", false);
  std::vector<int64_t> kv_heads;
  std::vector<int64_t> widths;
  for (int64_t i = 0; i < layers; ++i) {
    kv_heads.push_back(sliding[static_cast<size_t>(i)] ? heads : global);
    widths.push_back(doubled && i >= layers - shared ? 2 * width : width);
    if (i < layers - shared) continue;
    for (const char* part : {"k_proj", "v_proj", "k_norm"}) {  // unused where they are stored
      m.tensors.ignore(layer_name(i, fmt::format("self_attn.{}.weight", part)));
    }
  }
  if (global != heads) m.keys.set_ints("attention.head_count_kv", kv_heads);
  if (doubled && shared > 0) m.keys.set_ints("feed_forward_length", widths);
}

void map(CheckpointMap& m) {
  m.config.assume("hidden_activation", std::string("gelu_pytorch_tanh"));
  m.config.assume("tie_word_embeddings", true);
  read_layer_configs(m);
  m.config.assume("global_head_dim", m.config.get_int("head_dim", 256, 1, kMaxWidth));
  m.begin({.architecture = "gemma4",
           .activation = "gelu_pytorch_tanh",
           .rope_width = "global_head_dim"});
  map_layers(m);
  m.keys.set_float("final_logit_softcapping", m.config.get_float("final_logit_softcapping", 0.0));
  m.keys.set_int("embedding_length_per_layer_input",
                 m.config.get_int("hidden_size_per_layer_input", 0, 0, kMaxWidth));
  m.ends();
  m.tensors.copy("embed_tokens_per_layer.weight", "per_layer_token_embd.weight");
  m.tensors.copy("per_layer_model_projection.weight", "per_layer_model_proj.weight");
  m.tensors.copy("per_layer_projection_norm.weight", "per_layer_proj_norm.weight");
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "post_attention_norm"},
            {"pre_feedforward_layernorm", "ffn_norm"},
            {"post_feedforward_layernorm", "post_ffw_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"per_layer_input_gate", "inp_gate"},
            {"per_layer_projection", "proj"},
            {"post_per_layer_input_norm", "post_norm"}});
  const int64_t shared = m.config.get_int("num_kv_shared_layers", 0, 0, m.layer_count() - 1);
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "layer_scalar"), block_name(i, "layer_output_scale.weight"));
    for (const auto& [from, to] : {std::pair{"q_proj", "attn_q"}, {"o_proj", "attn_output"}}) {
      m.tensors.copy(layer_name(i, fmt::format("self_attn.{}.weight", from)),
                     block_name(i, to) + ".weight");
    }
    if (i >= m.layer_count() - shared) continue;
    for (const auto& [from, to] :
         {std::pair{"k_proj", "attn_k"}, {"v_proj", "attn_v"}, {"k_norm", "attn_k_norm"}}) {
      m.tensors.copy(layer_name(i, fmt::format("self_attn.{}.weight", from)),
                     block_name(i, to) + ".weight");
    }
  }
  m.feed_forward();
  map_experts(m);
}

}  // namespace

const ArchDef& gemma4_arch() {
  static constexpr const char* kNames[] = {"gemma4"};
  static constexpr const char* kCheckpoints[] = {"Gemma4ForConditionalGeneration",
                                                 "Gemma4ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
