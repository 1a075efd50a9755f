// Nemotron-H and Nemotron 3: every block is one mixer alone. Most are Mamba-2, some attention
// without positions, the others a feed-forward without a gate whose activation is the square of
// what is above 0, or such experts, chosen by sigmoid. NVIDIA 2025.
#include <algorithm>

#include "engine/core/file.h"
#include "engine/model/blocks.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/mamba2.h"
#include "engine/model/one_part_decoder.h"

namespace infer {
namespace {

class NemotronH final : public OnePartModel {
 public:
  explicit NemotronH(HparamReader& r) : OnePartModel(r, op::Rope::Style::half_split, true) {
    if (!r.has("attention.layer_norm_rms_epsilon")) {
      params.eps = r.epsilon("attention.layer_norm_epsilon");
    }
    info_.ropes.clear();
    mamba_ = Mamba2Block(r, params.eps);
    experts.route = read_route(r, params, 2, false);
    latent_ = r.get_int("moe_latent_size", 0, 0, kMaxWidth);
    ffn_norm_name = "post_attention_norm";  // of a draft head
    if (is_head()) head_layer_norm = r.epsilon("attention.layer_norm_epsilon");
    for (int64_t layer = params.first_layer; layer < params.layers; ++layer) {
      AttentionBlock& block = attention[static_cast<size_t>(layer)];
      block.rotate = false;
      block.eps = params.eps;
      if (mixes(layer)) add_state(layer, mamba_.state_elements());
    }
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    if (attends(layer)) return DecoderModel::attend(m, x, layer);
    return mamba2_block(m, x, layer, mamba_, states[static_cast<size_t>(layer)]);
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const auto name = [&](const char* part) { return block_name(layer, part); };
    if (!m.has(name("ffn_gate_inp.weight"))) {
      return square_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)], "");
    }
    const ValueId logits = m.linear(x, name("ffn_gate_inp"), experts.experts);
    const ValueId bias = m.optional_weight(name("exp_probs_b.bias"), {experts.experts});
    const std::vector<ValueId> routed =
        m.g.add_all(experts.route, {logits, bias, kNoValue, kNoValue});
    if (routed.size() != 2) return kNoValue;
    const ValueId in = latent_ > 0 ? m.linear(x, name("ffn_latent_down"), latent_) : x;
    const int64_t width = latent_ > 0 ? latent_ : params.embedding;
    m.g.set_unit({UnitKind::experts, static_cast<int32_t>(layer)});
    ValueId mixed =
        m.expert_linear(in, routed[0], name("ffn_up_exps"), experts.width, experts.experts);
    mixed = m.expert_linear(m.g.add(kSquare, {mixed, mixed}), routed[0], name("ffn_down_exps"),
                            width, experts.experts);
    mixed = m.g.add(op::MoeCombine{}, {mixed, routed[1]});
    m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
    if (latent_ > 0) mixed = m.linear(mixed, name("ffn_latent_up"), params.embedding);
    if (experts.shared_width == 0) return mixed;
    return m.add(mixed, square_block(m, x, layer, experts.shared_width, "_shexp"));
  }

 private:
  /// max(x, 0)², as a gate of itself.
  static constexpr op::Glu kSquare{op::Glu::Kind::relu};

  bool remembers(int64_t layer) const override { return attends(layer) || mixes(layer); }
  bool mixes(int64_t layer) const {
    return !attends(layer) && params.feed_forward[static_cast<size_t>(layer)] == 0;
  }

  ValueId square_block(ModelBuilder& m, ValueId x, int64_t layer, int64_t width,
                       const char* suffix) const {
    const ValueId up = m.linear(x, block_name(layer, "ffn_up") + suffix, width);
    return m.linear(m.g.add(kSquare, {up, up}), block_name(layer, "ffn_down") + suffix,
                    params.embedding);
  }

  Mamba2Block mamba_;
  int64_t latent_ = 0;  ///< width that the experts work in; 0: that of the model
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<NemotronH>(r), r);
}

Result<std::unique_ptr<Model>> create_head(const WeightSource& source, int64_t which) {
  HparamReader r(source, HparamReader::Part::head, which);
  return DecoderModel::finish(std::make_unique<NemotronH>(r), r);
}

/// The kind of each block: "M" Mamba-2, "*" attention, "-" feed-forward, "E" experts.
std::string pattern_of(CheckpointMap& m) {
  std::string pattern = m.config.get_string("hybrid_override_pattern", "");
  if (!pattern.empty()) return pattern;
  if (const std::vector<std::string>* types = m.config.get_strings("layers_block_type")) {
    constexpr std::pair<std::string_view, char> kKinds[] = {
        {"mamba", 'M'},     {"linear_attention", 'M'},
        {"attention", '*'}, {"full_attention", '*'},
        {"moe", 'E'},       {"mlp", '-'}};
    for (const std::string& type : *types) {
      const auto* kind = std::ranges::find(kKinds, type, &std::pair<std::string_view, char>::first);
      m.config.require(kind != std::end(kKinds), "layers_block_type '" + printable(type) + "'");
      pattern += kind == std::end(kKinds) ? '-' : kind->second;
    }
  }
  return pattern;
}

void map_experts(CheckpointMap& m, const std::string& pattern) {
  const int64_t experts = m.config.need_int("n_routed_experts", 1, 65536);
  const int64_t latent = m.config.get_int("moe_latent_size", 0, 0, kMaxWidth);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  m.keys.set_int("expert_group_count", m.config.get_int("n_group", 1, 1, experts));
  m.keys.set_int("expert_group_used_count", m.config.get_int("topk_group", 1, 1, experts));
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("moe_intermediate_size", 1, kMaxWidth));
  m.keys.set_int("expert_shared_feed_forward_length",
                 m.config.need_int("moe_shared_expert_intermediate_size", 1, kMaxWidth));
  m.keys.set_int("expert_shared_count", m.config.get_int("n_shared_experts", 1, 1, 1));
  m.keys.set_bool("expert_weights_norm", m.config.get_bool("norm_topk_prob", true));
  m.keys.set_float("expert_weights_scale", m.config.get_float("routed_scaling_factor", 1.0));
  m.keys.set_int("expert_gating_func", 2);
  if (latent > 0) m.keys.set_int("moe_latent_size", latent);
  m.layers({{"mixer.gate", "ffn_gate_inp"},
            {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
            {"mixer.shared_experts.down_proj", "ffn_down_shexp"},
            {"mixer.fc1_latent_proj", "ffn_latent_down"},
            {"mixer.fc2_latent_proj", "ffn_latent_up"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    if (const char kind = pattern[static_cast<size_t>(i)]; kind != 'E' && kind != 'H') continue;
    m.tensors.copy(layer_name(i, "mixer.gate.e_score_correction_bias"),
                   block_name(i, "exp_probs_b.bias"));
    add_experts(m.tensors, i, "mixer.experts", experts, {.gate = nullptr});
  }
}

/// The layer that predicts further tokens, which checkpoints have as two: attention, then experts.
void map_head(CheckpointMap& m) {
  const int64_t layer = m.layer_count();
  m.add_head_layer();
  m.tensors.also_named("mtp.layers.0.", layer_name(layer, ""));
  m.tensors.also_named("mtp.layers.1.mixer.", layer_name(layer, "mixer."));
  const auto copy = [&](const char* from, const char* to) {
    m.tensors.copy(std::string("mtp.layers.") + from + ".weight",
                   block_name(layer, to) + ".weight");
  };
  copy("0.eh_proj", "nextn.eh_proj");
  copy("0.enorm", "nextn.enorm");
  copy("0.hnorm", "nextn.hnorm");
  copy("1.norm", "post_attention_norm");
  copy("1.final_layernorm", "nextn.shared_head_norm");
}

void map(CheckpointMap& m) {
  std::string pattern = pattern_of(m);
  const bool routed = pattern.find('E') != std::string::npos;
  m.config.assume("num_hidden_layers", static_cast<int64_t>(pattern.size()));
  m.config.assume("rms_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-5));
  if (m.config.has("attention_head_dim")) {
    m.config.assume("head_dim", m.config.need_int("attention_head_dim", 1, kMaxWidth));
  }
  m.config.assume("intermediate_size", m.config.get_int("moe_intermediate_size", 1, 1, kMaxWidth));
  m.begin({.architecture = routed ? "nemotron_h_moe" : "nemotron_h"});
  if (pattern.size() != static_cast<size_t>(m.layer_count())) {
    m.config.require(false, "this hybrid_override_pattern");
    return;
  }
  if (routed && m.tensors.has("mtp.layers.0.eh_proj.weight")) {
    map_head(m);
    pattern += 'H';
  }
  m.config.require(m.config.get_string("mlp_hidden_act", "relu2") == "relu2",
                   "this mlp_hidden_act");
  m.keys.set_float("attention.layer_norm_epsilon", m.config.get_float("layer_norm_epsilon", 1e-5));
  m.keys.set_bool("rope.scaling.finetuned", false);
  m.tensors.copy("embeddings.weight", "token_embd.weight");
  m.keys.set_int("vocab_size", m.tensors.shape_of("embeddings.weight")[1]);
  m.ends();
  m.tensors.copy("norm_f.weight", "output_norm.weight");
  m.layers({{"norm", "attn_norm"},
            {"mixer.q_proj", "attn_q"},
            {"mixer.k_proj", "attn_k"},
            {"mixer.v_proj", "attn_v"},
            {"mixer.o_proj", "attn_output"},
            {"mixer.up_proj", "ffn_up"},
            {"mixer.down_proj", "ffn_down"}});
  Mamba2Sizes sizes;
  sizes.heads = m.config.need_int("mamba_num_heads", 1, 4096);
  sizes.head = m.config.need_int("mamba_head_dim", 1, kMaxWidth);
  sizes.state = m.config.need_int("ssm_state_size", 1, kMaxWidth);
  sizes.groups = m.config.get_int("n_groups", 1, 1, sizes.heads);
  sizes.taps = m.config.get_int("conv_kernel", 4, 2, kMostTaps);
  map_mamba2(m, sizes);
  const int64_t kv_heads = m.config.get_int("num_key_value_heads", m.head_count(), 1, 4096);
  const int64_t width = m.config.get_int("intermediate_size", 1, 1, kMaxWidth);
  const int64_t expert = m.config.get_int("moe_intermediate_size", width, 1, kMaxWidth);
  std::vector<int64_t> heads;
  std::vector<int64_t> widths;
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const char kind = pattern[static_cast<size_t>(i)];
    heads.push_back(kind == '*' || kind == 'H' ? kv_heads : 0);
    widths.push_back(kind == '-' ? width : kind == 'E' || kind == 'H' ? expert : 0);
    if (kind == 'M') map_mamba2_layer(m, sizes, i, "mixer");
  }
  m.keys.set_ints("attention.head_count_kv", heads);
  m.keys.set_ints("feed_forward_length", widths);
  if (routed) map_experts(m, pattern);
  m.tensors.ignore_prefix("mtp.");
}

}  // namespace

const ArchDef& nemotron_h_arch() {
  static constexpr const char* kNames[] = {"nemotron_h", "nemotron_h_moe"};
  static constexpr const char* kCheckpoints[] = {"NemotronHForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map, create_head};
  return def;
}

}  // namespace infer
