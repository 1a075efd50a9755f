// Qwen 3 and its experts: the plain decoder with half-split RoPE and an RMSNorm on every q and k
// head; in the expert models each feed-forward is a choice by softmax, the weights of the chosen
// ones summing to one. Yang et al. 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  const bool routed = m.config.checkpoint() == "Qwen3MoeForCausalLM";
  m.begin({.architecture = routed ? "qwen3moe" : "qwen3"});
  require_no_window(m);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"}});
  m.attention();
  m.feed_forward();
  if (!routed) return;
  const bool renamed = !m.config.has("num_experts");  // by transformers 5
  const int64_t experts =
      m.config.need_int(renamed ? "num_local_experts" : "num_experts", 1, 65536);
  m.config.require(m.config.get_bool("norm_topk_prob", false), "norm_topk_prob false");
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("moe_intermediate_size", 1, 1 << 20));
  m.layers({{"mlp.gate", "ffn_gate_inp"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    // mlp_only_layers have a feed-forward instead.
    if (m.tensors.has(layer_name(i, "mlp.gate.weight")))
      add_experts(m.tensors, i, "mlp.experts", experts);
  }
}

}  // namespace

const ArchDef& qwen3_arch() {
  static constexpr const char* kNames[] = {"qwen3", "qwen3moe"};
  static constexpr const char* kCheckpoints[] = {"Qwen3ForCausalLM", "Qwen3MoeForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
