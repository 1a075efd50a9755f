// K-EXAONE: an RMSNorm on every q and k head, a sliding window with half-split RoPE in most layers
// and neither in the others; leading layers without experts, then experts chosen as in DeepSeek V3,
// beside those that every token takes. LG AI Research 2026.
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
  model->set_windows_with_rope(r, kPeriod);
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
  model->experts.route = read_route(r, model->params, 2, true);
  model->experts.shared_width =
      r.get_int("expert_shared_feed_forward_length",
                r.get_int("expert_shared_count", 0, 0, 1024) * model->experts.width, 0, kMaxWidth);
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "exaone-moe"});
  m.keys.set_int("attention.sliding_window",
                 m.config.get_int("sliding_window", 4096, 1, INT32_MAX));
  m.config.require(m.config.has("layer_types"), "a configuration without layer_types");
  map_sliding_layers(m, kPeriod);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"}});
  m.attention();
  m.feed_forward();
  m.config.assume("first_k_dense_replace", int64_t{1});
  m.config.assume("n_routed_experts", m.config.need_int("num_experts", 1, 65536));
  m.config.assume("n_shared_experts", m.config.get_int("num_shared_experts", 1, 0, 1024));
  m.config.assume("routed_scaling_factor", 2.5);
  m.config.assume("topk_group", int64_t{1});
  map_deepseek_experts(m, DeepseekRouting::v3);
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "mlp.e_score_correction_bias"), block_name(i, "exp_probs_b.bias"));
  }
  m.tensors.ignore_prefix("mtp.");  // what predicts further tokens is not used
}

}  // namespace

const ArchDef& exaone_moe_arch() {
  static constexpr const char* kNames[] = {"exaone-moe"};
  static constexpr const char* kCheckpoints[] = {"ExaoneMoeForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
