// LFM2: layers of a gated short convolution, and some of attention with an RMSNorm on every q and k
// head and half-split RoPE. Of LFM2-MoE the later layers have experts, chosen by sigmoid with a
// bias. Liquid AI 2025.
#include <algorithm>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class Lfm2 final : public DecoderModel {
 public:
  explicit Lfm2(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split, true) {
    output_norm_name = "token_embd_norm";  // as llama.cpp's files call it
    taps_ = r.need_int("shortconv.l_cache", 2, kMostTaps);
    experts.route = read_route(r, params, 2, true);
    const int64_t window = r.get_int("attention.sliding_window", 0, 0, INT32_MAX);
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      attention[static_cast<size_t>(layer)].qk_norm = AttentionBlock::QkNorm::per_head;
      if (!attends(layer)) {
        add_state(layer, conv_state(taps_, params.embedding));
      } else if (window > 0) {
        set_window(layer, static_cast<int32_t>(window));
      }
    }
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    if (attends(layer)) return DecoderModel::attend(m, x, layer);
    const auto name = [&](const char* part) { return block_name(layer, part); };
    const int64_t n = params.embedding;
    const op::Glu product{op::Glu::Kind::bilinear};
    const ValueId all = m.linear(x, name("shortconv.in_proj"), 3 * n);
    const ValueId in = m.g.add(product, {m.g.slice(all, 0, n), m.g.slice(all, 2 * n, n)});
    const ValueId mixed =
        m.causal_conv(in, name("shortconv.conv"), taps_, states[static_cast<size_t>(layer)], false);
    const ValueId out = m.g.add(product, {m.g.slice(all, n, n), mixed});
    return m.linear(out, name("shortconv.out_proj"), n);
  }

 private:
  int64_t taps_ = 2;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Lfm2>(r), r);
}

void map_experts(CheckpointMap& m) {
  const int64_t experts = m.config.need_int("num_experts", 1, 65536);
  const int64_t dense = m.config.get_int("num_dense_layers", 2, 0, m.layer_count());
  m.config.require(m.config.get_bool("norm_topk_prob", true), "norm_topk_prob false");
  m.keys.set_int("leading_dense_block_count", dense);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("moe_intermediate_size", 1, kMaxWidth));
  m.keys.set_float("expert_weights_scale", m.config.get_float("routed_scaling_factor", 1.0));
  m.keys.set_int("expert_gating_func", 2);
  m.layers({{"feed_forward.gate", "ffn_gate_inp"}});
  for (int64_t i = dense; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "feed_forward.expert_bias"), block_name(i, "exp_probs_b.bias"));
    add_experts(m.tensors, i, "feed_forward.experts", experts, {"w1", "w3", "w2"});
  }
}

/// Which layers attend: by their types, or before there were any by a list.
std::vector<bool> attending_layers(CheckpointMap& m) {
  std::vector<bool> attends(static_cast<size_t>(m.layer_count()), false);
  if (const std::vector<std::string>* types = m.config.get_strings("layer_types")) {
    for (size_t i = 0; i < std::min(types->size(), attends.size()); ++i) {
      attends[i] = (*types)[i] == "full_attention";
      m.config.require(attends[i] || (*types)[i] == "conv", "this layer_types");
    }
    m.config.require(types->size() == attends.size(), "this number of layer_types");
    return attends;
  }
  for (const int64_t i : m.config.get_ints("full_attn_idxs")) {
    m.config.require(i >= 0 && i < m.layer_count(), "this full_attn_idxs");
    if (i >= 0 && i < m.layer_count()) attends[static_cast<size_t>(i)] = true;
  }
  return attends;
}

void map(CheckpointMap& m) {
  const bool routed = m.config.checkpoint() == "Lfm2MoeForCausalLM";
  m.config.assume("rms_norm_eps", m.config.get_float("norm_eps", 1e-5));
  m.config.assume("rope_theta", 1000000.0);
  m.config.assume("tie_word_embeddings", m.config.get_bool("tie_embedding", true));
  if (m.config.has("block_ff_dim")) {
    m.config.assume("intermediate_size", m.config.need_int("block_ff_dim", 1, kMaxWidth));
  }
  m.config.require(!m.config.get_bool("conv_bias", false), "conv_bias");
  m.begin({.architecture = routed ? "lfm2moe" : "lfm2", .rope_base = 1e6});
  m.ends();
  m.tensors.copy("embedding_norm.weight", "token_embd_norm.weight");
  // The configuration's width is that before it is adjusted.
  m.keys.set_int("feed_forward_length",
                 m.tensors.shape_of(layer_name(0, "feed_forward.w1.weight"))[1]);
  const int64_t taps = m.config.get_int("conv_L_cache", 3, 2, kMostTaps);
  m.keys.set_int("shortconv.l_cache", taps);
  m.layers({{"operator_norm", "attn_norm"},
            {"ffn_norm", "ffn_norm"},
            {"self_attn.q_proj", "attn_q"},
            {"self_attn.k_proj", "attn_k"},
            {"self_attn.v_proj", "attn_v"},
            {"self_attn.out_proj", "attn_output"},
            {"self_attn.q_layernorm", "attn_q_norm"},
            {"self_attn.k_layernorm", "attn_k_norm"},
            {"conv.in_proj", "shortconv.in_proj"},
            {"conv.out_proj", "shortconv.out_proj"},
            {"feed_forward.w1", "ffn_gate"},
            {"feed_forward.w3", "ffn_up"},
            {"feed_forward.w2", "ffn_down"}});
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  const int64_t kv_heads = m.config.get_int("num_key_value_heads", m.head_count(), 1, 4096);
  const std::vector<bool> attends = attending_layers(m);
  std::vector<int64_t> heads;
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    heads.push_back(attends[static_cast<size_t>(i)] ? kv_heads : 0);
    if (heads.back() > 0) continue;
    m.tensors.put(block_name(i, "shortconv.conv.weight"),
                  m.tensors.view(layer_name(i, "conv.conv.weight"), {taps, width}));
  }
  m.keys.set_ints("attention.head_count_kv", heads);
  if (routed) map_experts(m);
}

}  // namespace

const ArchDef& lfm2_arch() {
  static constexpr const char* kNames[] = {"lfm2", "lfm2moe"};
  static constexpr const char* kCheckpoints[] = {"Lfm2ForCausalLM", "Lfm2MoeForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
