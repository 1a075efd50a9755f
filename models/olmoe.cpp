// OLMoE: experts chosen by softmax, whose weights stay as they are; an RMSNorm over all of q and of
// k; half-split RoPE. Muennighoff et al. 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->experts.route.normalise = false;
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::whole;
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "olmoe"});
  m.config.require(m.config.get_float("clip_qkv", 0.0) == 0, "clip_qkv");
  m.config.require(!m.config.get_bool("norm_topk_prob", false), "norm_topk_prob");
  const int64_t experts = map_expert_counts(m);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"},
            {"mlp.gate", "ffn_gate_inp"}});
  m.attention();
  for (int64_t i = 0; i < m.layer_count(); ++i) add_experts(m.tensors, i, "mlp.experts", experts);
}

}  // namespace

const ArchDef& olmoe_arch() {
  static constexpr const char* kNames[] = {"olmoe"};
  static constexpr const char* kCheckpoints[] = {"OlmoeForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
