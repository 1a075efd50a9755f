// Laguna: an RMSNorm on every q and k head, a gate by softplus on what the heads make, and in most
// layers of the smaller models a sliding window with more heads and a RoPE of its own; leading
// layers without experts, then experts chosen by sigmoid with a bias on the choice, beside one that
// every token takes. Poolside 2026.
#include <algorithm>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

/// Of files that do not say, the first of each four layers sees everything.
std::vector<bool> sliding_layers(HparamReader& r, int64_t layers) {
  const std::string key = "attention.sliding_window_pattern";
  std::vector<bool> sliding = r.flags(key, layers);
  if (!sliding.empty()) return sliding;
  const int64_t period = r.get_int(key, 4, 1, INT32_MAX);
  for (int64_t i = 0; i < layers; ++i) sliding.push_back(i % period != 0);
  return sliding;
}

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  for (AttentionBlock& block : model->attention) {
    block.qk_norm = AttentionBlock::QkNorm::per_head;
    block.gate_activation = op::Glu::Kind::softplus;
    const Weight* gate = source.find(block_name(block.layer, "attn_gate.weight"));
    const bool of_heads = gate != nullptr && gate->desc.shape[1] == block.heads;
    block.gate = of_heads ? AttentionBlock::Gate::of_heads : AttentionBlock::Gate::apart;
  }
  if (r.get_int("attention.sliding_window", 0, 0, INT32_MAX) > 0) {
    model->set_windows_with_own_rope(r, sliding_layers(r, model->params.layers),
                                     model->mutable_info().ropes[0].base);
  }
  model->experts.route = read_route(r, model->params, 2, false);
  if (model->experts.shared_width == 0) {
    model->experts.shared_width =
        r.get_int("expert_shared_count", 1, 0, 1024) * model->experts.width;
  }
  return DecoderModel::finish(std::move(model), r);
}

void map_windows(CheckpointMap& m) {
  const std::vector<std::string>* const kinds = m.config.get_strings("layer_types");
  if (kinds == nullptr) return;  // no layer has a window
  const std::vector<bool> sliding = map_sliding_layers(m, 0);
  if (std::ranges::find(sliding, true) == sliding.end()) return;
  m.keys.set_int("attention.sliding_window", m.config.need_int("sliding_window", 1, INT32_MAX));
  map_window_rope(m, m.config.get_int("head_dim", 128, 1, kMaxWidth));
}

void map(CheckpointMap& m) {
  m.config.assume("head_dim", int64_t{128});
  m.config.assume("num_experts", int64_t{256});
  m.begin({.architecture = "laguna", .rope_base = 500000.0});
  map_windows(m);
  if (std::vector<int64_t> heads = m.config.get_ints("num_attention_heads_per_layer");
      !heads.empty()) {
    m.config.require(std::ssize(heads) == m.layer_count(), "these num_attention_heads_per_layer");
    m.keys.set_ints("attention.head_count", std::move(heads));
  }
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"},
            {"self_attn.g_proj", "attn_gate"}});
  m.attention();
  m.feed_forward();
  m.config.require(!m.config.get_bool("moe_apply_router_weight_on_input", false),
                   "moe_apply_router_weight_on_input");
  m.config.require(m.config.get_float("moe_router_logit_softcapping", 0.0) == 0,
                   "moe_router_logit_softcapping");
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const std::string at = layer_name(i, "mlp.");
    m.tensors.also_named(at + "shared_expert.", at + "shared_experts.");
    m.tensors.also_named(at + "experts.e_score_correction_bias",
                         at + "gate.e_score_correction_bias");
  }
  m.config.assume("first_k_dense_replace", int64_t{1});
  m.config.assume("n_routed_experts", m.config.need_int("num_experts", 1, 65536));
  m.config.assume("routed_scaling_factor", m.config.get_float("moe_routed_scaling_factor", 1.0));
  map_deepseek_experts(m, DeepseekRouting::v3);
  m.keys.set_int("expert_shared_feed_forward_length",
                 m.config.get_int("shared_expert_intermediate_size", 512, 1, kMaxWidth));
}

}  // namespace

const ArchDef& laguna_arch() {
  static constexpr const char* kNames[] = {"laguna"};
  static constexpr const char* kCheckpoints[] = {"LagunaForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
