// MiniMax-M2: half-split RoPE over half of the head, an RMSNorm over all of q and of k, in every
// layer experts chosen by sigmoid with a bias on the choice. MiniMax 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::whole;
  model->experts.route = read_route(r, model->params, 2, true);
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  const auto head = static_cast<double>(m.config.need_int("head_dim", 1, kMaxWidth));
  const auto rotated = static_cast<double>(m.config.get_int("rotary_dim", 0, 0, kMaxWidth));
  if (rotated > 0) m.config.assume("partial_rotary_factor", rotated / head);
  m.begin({.architecture = "minimax-m2", .rope_base = 5e6});
  m.config.require(m.config.get_bool("use_qk_norm", true), "use_qk_norm false");
  m.config.require(m.config.get_string("scoring_func", "sigmoid") == "sigmoid",
                   "this scoring_func");
  m.config.require(m.config.get_int("shared_intermediate_size", 0, 0, kMaxWidth) == 0,
                   "shared_intermediate_size");
  const int64_t experts = m.config.need_int("num_local_experts", 1, 65536);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("intermediate_size", 1, kMaxWidth));
  m.keys.set_int("expert_gating_func", 2);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"},
            {"block_sparse_moe.gate", "ffn_gate_inp"}});
  m.attention();
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "block_sparse_moe.e_score_correction_bias"),
                   block_name(i, "exp_probs_b.bias"));
    add_experts(m.tensors, i, "block_sparse_moe.experts", experts, {"w1", "w3", "w2"});
  }
}

}  // namespace

const ArchDef& minimax_m2_arch() {
  static constexpr const char* kNames[] = {"minimax-m2"};
  static constexpr const char* kCheckpoints[] = {"MiniMaxM2ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
