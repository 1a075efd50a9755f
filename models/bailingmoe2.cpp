// Ling 2.0 and Ring 2.0: fused q/k/v, an RMSNorm on every q and k head, half-split RoPE over part
// of the head; leading layers without experts, then experts chosen by sigmoid from groups with a
// bias on the choice, beside those that every token takes. Ling Team 2025.
#include <algorithm>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
  ExpertsBlock& experts = model->experts;
  experts.route = read_route(r, model->params, 2, true);
  // The key has the width of each.
  if (experts.shared_width == 0) experts.shared_width = experts.width;
  experts.shared_width *= r.get_int("expert_shared_count", 0, 0, 1024);
  return DecoderModel::finish(std::move(model), r);
}

void map_experts(CheckpointMap& m) {
  const int64_t experts = map_expert_counts(m);
  const int64_t width = m.config.need_int("moe_intermediate_size", 1, kMaxWidth);
  const int64_t shared = m.config.get_int("num_shared_experts", 1, 0, 1024);
  const int64_t dense = m.config.get_int("first_k_dense_replace", 1, 0, m.layer_count());
  m.keys.set_int("leading_dense_block_count", dense);
  m.keys.set_int("expert_feed_forward_length", width);
  m.keys.set_int("expert_shared_feed_forward_length", width);
  m.keys.set_int("expert_shared_count", shared);
  m.keys.set_float("expert_weights_scale", m.config.get_float("routed_scaling_factor", 1.0));
  m.keys.set_bool("expert_weights_norm", true);
  m.keys.set_int("expert_gating_func", 2);
  const int64_t groups = m.config.get_int("n_group", 8, 1, experts);
  m.keys.set_int("expert_group_count", groups);
  m.keys.set_int("expert_group_used_count", m.config.get_int("topk_group", 4, 1, groups));
  m.layers({{"mlp.gate", "ffn_gate_inp"},
            {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
            {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
            {"mlp.shared_experts.down_proj", "ffn_down_shexp"}});
  for (int64_t i = dense; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "mlp.gate.expert_bias"), block_name(i, "exp_probs_b.bias"));
    add_experts(m.tensors, i, "mlp.experts", experts);
  }
}

/// Ling 1T gives rotary_dim in place of a share. Programs disagree on what holds without both.
void map_rope_width(CheckpointMap& m) {
  const char* const share = "partial_rotary_factor";
  if (m.config.has(share) || m.config.has(rope_section(m.config) + share)) return;
  m.config.require(m.config.has("rotary_dim"), "no partial_rotary_factor");
  const auto width = static_cast<double>(m.config.get_int("rotary_dim", 1, 1, kMaxWidth));
  const int64_t heads = m.config.need_int("num_attention_heads", 1, 4096);
  const int64_t head = m.config.get_int(
      "head_dim", m.config.need_int("hidden_size", 1, kMaxWidth) / heads, 1, kMaxWidth);
  m.config.assume(share, width / static_cast<double>(std::max<int64_t>(1, head)));
}

void map(CheckpointMap& m) {
  m.tensors.also_named("word_embeddings.", "embed_tokens.");
  map_rope_width(m);
  m.begin({.architecture = "bailingmoe2", .rope_base = 600000.0});
  m.config.require(m.config.get_bool("use_qk_norm", true), "use_qk_norm false");
  m.config.require(m.config.get_bool("use_rmsnorm", true), "use_rmsnorm false");
  m.config.require(!m.config.get_bool("norm_head", false), "norm_head");
  m.config.require(m.config.get_bool("norm_topk_prob", true), "norm_topk_prob false");
  m.config.require(m.config.get_int("num_experts_per_tok", 8, 1, 65536) > 1,
                   "one num_experts_per_tok");
  m.config.require(m.config.get_string("score_function", "sigmoid") == "sigmoid",
                   "this score_function");
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"attention.query_key_value", "attn_qkv"},
            {"attention.query_layernorm", "attn_q_norm"},
            {"attention.key_layernorm", "attn_k_norm"},
            {"attention.dense", "attn_output"}});
  m.feed_forward();
  map_experts(m);
  const int64_t next = m.config.get_int("num_nextn_predict_layers", 0, 0, 64);
  for (int64_t i = 0; i < next; ++i) {
    m.tensors.ignore_prefix(layer_name(m.layer_count() + i, ""));
  }
}

}  // namespace

const ArchDef& bailingmoe2_arch() {
  static constexpr const char* kNames[] = {"bailingmoe2"};
  static constexpr const char* kCheckpoints[] = {"BailingMoeV2ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
