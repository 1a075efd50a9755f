// Trinity (AFMoE): norms before and after each part, an RMSNorm on every q and k head, a gate on
// what the heads make, a sliding window with half-split RoPE in three of four layers and neither in
// the fourth; leading layers without experts, then experts chosen by sigmoid with a bias on the
// choice, beside those that every token takes. Arcee AI 2025.
#include <cmath>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr int64_t kPeriod = 4;  // of the layers that see everything

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->embedding_scale = std::sqrt(static_cast<float>(model->params.embedding));
  model->post_norms = true;
  model->set_windows_with_rope(r, kPeriod);
  for (AttentionBlock& block : model->attention) {
    block.qk_norm = AttentionBlock::QkNorm::per_head;
    block.gate = AttentionBlock::Gate::apart;
  }
  model->experts.route = read_route(r, model->params, 2, true);
  model->experts.shared_width = r.get_int("expert_shared_count", 0, 0, 1024) * model->experts.width;
  return DecoderModel::finish(std::move(model), r);
}

void map_experts(CheckpointMap& m) {
  const int64_t experts = map_expert_counts(m);
  const int64_t dense = m.config.get_int("num_dense_layers", 1, 0, m.layer_count());
  m.config.require(m.config.get_string("score_func", "sigmoid") == "sigmoid", "this score_func");
  m.config.require(m.config.get_int("n_group", 1, 0, experts) <= 1, "n_group");
  m.keys.set_int("leading_dense_block_count", dense);
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("moe_intermediate_size", 1, kMaxWidth));
  m.keys.set_int("expert_shared_count", m.config.get_int("num_shared_experts", 2, 0, 1024));
  m.keys.set_int("expert_gating_func", 2);
  m.keys.set_bool("expert_weights_norm", m.config.get_bool("route_norm", true));
  m.keys.set_float("expert_weights_scale", m.config.get_float("route_scale", 1.0));
  m.layers({{"mlp.router.gate", "ffn_gate_inp"},
            {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
            {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
            {"mlp.shared_experts.down_proj", "ffn_down_shexp"}});
  for (int64_t i = dense; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "mlp.expert_bias"), block_name(i, "exp_probs_b.bias"));
    add_experts(m.tensors, i, "mlp.experts", experts);
  }
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "afmoe"});
  // Files of GGUF have no key for it.
  m.config.require(m.config.get_bool("mup_enabled", false), "a configuration without mup_enabled");
  m.keys.set_int("attention.sliding_window",
                 m.config.get_int("sliding_window", 1024, 1, INT32_MAX));
  m.config.require(m.config.get_int("global_attn_every_n_layers", kPeriod, 1, 1024) == kPeriod,
                   "this global_attn_every_n_layers");
  map_sliding_layers(m, kPeriod);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "post_attention_norm"},
            {"pre_mlp_layernorm", "ffn_norm"},
            {"post_mlp_layernorm", "post_ffw_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"},
            {"self_attn.gate_proj", "attn_gate"}});
  m.attention();
  m.feed_forward();
  map_experts(m);
}

}  // namespace

const ArchDef& afmoe_arch() {
  static constexpr const char* kNames[] = {"afmoe"};
  static constexpr const char* kCheckpoints[] = {"AfmoeForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
