// Ling 3.0 and Ring 3.0: the last of every few layers has multi-head latent attention, with a gate
// for each head, the others Kimi delta attention, whose decays have a bound; experts as in DeepSeek
// V3, with leading layers that have none. Ling Team 2026.
#include <algorithm>
#include <utility>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/delta_latent_decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> read(HparamReader r) {
  auto model = std::make_unique<DeltaLatentModel>(r);
  model->latent.gate = AttentionBlock::Gate::of_heads;
  model->read_limits(r);
  if (!r.get_bool("kda.safe_gate", true) || model->delta.bound == 0) {
    r.set_error(error(StatusCode::unsupported,
                      "{}: expected decays with a bound (kda.safe_gate, kda.gate_lower_bound)",
                      r.metadata().source()));
  }
  return DecoderModel::finish(std::move(model), r);
}

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  return read(HparamReader(source));
}

/// The layer that predicts further tokens has latent attention.
Result<std::unique_ptr<Model>> create_head(const WeightSource& source, int64_t which) {
  return read(HparamReader(source, HparamReader::Part::head, which));
}

/// The last of every layer_group_size layers has latent attention.
std::vector<bool> delta_layers(CheckpointMap& m) {
  std::vector<bool> delta = linear_layers(m);
  if (!delta.empty()) return delta;
  const int64_t period = m.config.get_int("layer_group_size", 6, 1, 1024);
  m.config.require(m.layer_count() % period == 0, "this layer_group_size without layer_types");
  for (int64_t i = 0; i < m.layer_count(); ++i) delta.push_back((i + 1) % period != 0);
  return delta;
}

void map(CheckpointMap& m) {
  m.tensors.also_named("word_embeddings.", "embed_tokens.");
  rename_delta_keys(m);
  // Of linear attention. transformers writes the width of what RoPE turns under this key.
  m.config.assume("linear_head_dim", m.config.need_int("head_dim", 1, kMaxWidth));
  m.config.assume("num_nextn_predict_layers", m.config.get_int("num_mtp_layers", 0, 0, 64));
  m.begin({.architecture = "bailingmoe3", .rope_base = 6e6, .rope_width = "qk_rope_head_dim"});
  require_plain_rope(m);
  m.config.require(m.config.get_bool("kda_safe_gate", true), "kda_safe_gate false");
  m.config.require(m.config.get_bool("no_kda_lora", true), "no_kda_lora false");
  m.config.require(m.config.get_bool("rope_interleave", true), "rope_interleave false");
  const std::string gate =
      m.config.get_string("gated_attention_proj_granularity_type", "head_wise");
  m.config.require(gate == "head_wise", "this gated_attention_proj_granularity_type");
  std::vector<bool> delta = delta_layers(m);
  m.add_deepseek_heads();
  delta.resize(static_cast<size_t>(m.layer_count()), false);
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.also_named(layer_name(i, "attention."), layer_name(i, "self_attn."));
    m.tensors.also_named(layer_name(i, "mlp.gate.expert_bias"),
                         layer_name(i, "mlp.gate.e_score_correction_bias"));
  }
  m.ends();
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const bool full = i < std::ssize(delta) && !delta[static_cast<size_t>(i)];
    m.tensors.copy(layer_name(i, "self_attn.g_proj.weight"),
                   block_name(i, full ? "attn_gate.weight" : "ssm_g_a.weight"));
  }
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"final_layernorm", "layer_output_norm"},
            {"self_attn.dense", "attn_output"},
            {"self_attn.f_proj", "ssm_f_a"}});
  map_latent(m);
  map_kimi_delta(m, delta);
  m.keys.set_bool("kda.safe_gate", true);
  m.keys.set_float("kda.gate_lower_bound", m.config.get_float("kda_lower_bound", -5.0));
  m.feed_forward();
  map_deepseek_experts(m, DeepseekRouting::v3);
  if (const int64_t width =
          m.config.get_int("moe_shared_expert_intermediate_size", 0, 0, kMaxWidth);
      width > 0) {
    m.keys.set_int("expert_shared_feed_forward_length", width);
  }
  for (const auto& [from, to] : {std::pair{"expert_swiglu_limit_list", "swiglu_clamp_exp"},
                                 {"share_expert_swiglu_limit_list", "swiglu_clamp_shexp"}}) {
    std::vector<float> limits = m.config.get_floats(from);
    limits.resize(static_cast<size_t>(m.layer_count()), 0.0f);
    for (size_t i = 0; i < limits.size(); ++i) {  // lists with null are read by element
      limits[i] = static_cast<float>(m.config.get_float(fmt::format("{}.{}", from, i), limits[i]));
    }
    if (std::ranges::all_of(limits, [](float limit) { return limit == 0; })) continue;
    m.keys.set_floats(to, std::move(limits));
  }
}

}  // namespace

const ArchDef& bailingmoe3_arch() {
  static constexpr const char* kNames[] = {"bailingmoe3"};
  static constexpr const char* kCheckpoints[] = {"BailingMoeV3ForCausalLM",
                                                 "BailingHybridForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map, create_head};
  return def;
}

}  // namespace infer
