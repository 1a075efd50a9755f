// Kimi Linear: three of four layers are Kimi delta attention, a gated delta net whose decay differs
// by channel of a key; the others multi-head latent attention without RoPE. Experts as in DeepSeek
// V3, with leading layers that have none. Kimi Team 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/delta_latent_decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DeltaLatentModel>(r);
  model->latent.rotate = false;
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  rename_delta_keys(m);
  m.config.assume("topk_group", int64_t{1});
  m.begin({.architecture = "kimi-linear", .rope_width = "qk_rope_head_dim"});
  m.config.require(m.config.get_bool("mla_use_nope", true), "mla_use_nope false");
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.f_a_proj", "ssm_f_a"},
            {"self_attn.f_b_proj", "ssm_f_b"},
            {"self_attn.g_a_proj", "ssm_g_a"},
            {"self_attn.g_b_proj", "ssm_g_b"}});
  map_latent(m);
  map_kimi_delta(m, listed_delta_layers(m));
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.also_named(layer_name(i, "block_sparse_moe."), layer_name(i, "mlp."));
  }
  m.feed_forward();
  map_deepseek_experts(m, DeepseekRouting::v3, {"w1", "w3", "w2"});
}

}  // namespace

const ArchDef& kimi_linear_arch() {
  static constexpr const char* kNames[] = {"kimi-linear"};
  static constexpr const char* kCheckpoints[] = {"KimiLinearForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
