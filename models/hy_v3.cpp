// Hunyuan V3 (Hy3): half-split RoPE and an RMSNorm on every q and k head; leading layers without
// experts, then experts chosen by sigmoid with a bias on the choice, beside one that every token
// takes. Tencent 2026.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> read(HparamReader r) {
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
  model->experts.route = read_route(r, model->params, 2, false);
  // llama.cpp takes one such expert, as wide as the others, where a file does not say.
  if (model->experts.shared_width == 0) model->experts.shared_width = model->experts.width;
  return DecoderModel::finish(std::move(model), r);
}

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  return read(HparamReader(source));
}

Result<std::unique_ptr<Model>> create_head(const WeightSource& source, int64_t which) {
  return read(HparamReader(source, HparamReader::Part::head, which));
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "hy_v3", .rope_base = 11158840.0});
  const int64_t first_head = m.layer_count();
  for (int64_t i = 0; i < m.config.get_int("num_nextn_predict_layers", 0, 0, 64); ++i) {
    const std::string at = layer_name(first_head + i, "");
    m.tensors.also_named(at + "final_layernorm.", at + "shared_head.norm.");
  }
  m.add_deepseek_heads();
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const std::string at = layer_name(i, "mlp.");
    m.tensors.also_named(at + "router.gate.", at + "gate.");
    m.tensors.also_named(at + "shared_mlp.", at + "shared_experts.");
    for (const char* bias : {"expert_bias", "e_score_correction_bias"}) {
      m.tensors.copy(at + bias, block_name(i, "exp_probs_b"));
    }
  }
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"}});
  m.attention();
  m.feed_forward();
  const int64_t shared = m.config.get_int("num_shared_experts", 1, 1, 1024);
  m.config.assume("first_k_dense_replace", int64_t{1});
  m.config.assume("n_routed_experts", m.config.need_int("num_experts", 1, 65536));
  m.config.assume("n_shared_experts", shared);
  m.config.assume("routed_scaling_factor", m.config.get_float("router_scaling_factor", 2.826));
  m.config.assume("norm_topk_prob", m.config.get_bool("route_norm", true));
  map_deepseek_experts(m, DeepseekRouting::v3);
  m.keys.set_int("expert_shared_feed_forward_length",
                 shared * m.config.get_int("moe_intermediate_size", 1, 1, kMaxWidth));
}

}  // namespace

const ArchDef& hy_v3_arch() {
  static constexpr const char* kNames[] = {"hy_v3"};
  static constexpr const char* kCheckpoints[] = {"HYV3ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map, create_head};
  return def;
}

}  // namespace infer
