// Phi-3.5-MoE, Phi-mini-MoE and Phi-tiny-MoE: LayerNorms and projections with biases, half-split
// RoPE with two sets of factors (LongRoPE, Ding et al. 2024), and experts whose weights are those
// of SparseMixer (Liu et al. 2024). Abdin et al. 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr double kJitter = 0.01;  // of all published models; GGUF has no key for it

/// The norms and the weights of experts are those that the models were trained with. llama.cpp
/// divides by the root mean square alone, and weighs experts by softmax: its logits of the same
/// file are others.
Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->layer_norms = true;
  RopeSpec& rope = model->mutable_info().ropes[0];
  rope.factors = weight_index(source, "rope_factors_short.weight");
  rope.long_factors = weight_index(source, "rope_factors_long.weight");
  rope.original_context = static_cast<double>(
      r.get_int("rope.scaling.original_context_length", model->params.context, 1, INT32_MAX));
  const auto window = r.get_int("attention.sliding_window", 0, 0, INT32_MAX);
  for (int64_t layer = 0; layer < model->params.layers; ++layer) {
    model->set_window(layer, static_cast<int32_t>(window));
  }
  op::MoeRoute& route = model->experts.route;
  route.gating = op::MoeRoute::Gating::sparse_mixer;
  route.normalise = false;
  route.margin = static_cast<float>(2 * kJitter);
  return DecoderModel::finish(std::move(model), r);
}

/// LongRoPE with a factor for cos and sin of its own in place of the one that follows from the
/// stretch.
void map_factors(CheckpointMap& m) {
  if (!map_long_rope(m)) return;
  const std::string section = rope_section(m.config);
  const double magnitude = m.config.get_float(section + "short_mscale", 1.0);
  m.config.require(m.config.get_float(section + "long_mscale", magnitude) == magnitude,
                   "a long_mscale other than short_mscale");
  m.keys.set_float("rope.scaling.attn_factor", magnitude);
}

void map(CheckpointMap& m) {
  m.config.assume("rms_norm_eps", 1e-5);
  m.begin({.architecture = "phimoe", .rope_base = 1e6, .long_rope = true});
  m.config.require(m.config.get_float("router_jitter_noise", kJitter) == kJitter,
                   "this router_jitter_noise");
  const int64_t experts = m.config.need_int("num_local_experts", 2, 65536);
  m.config.require(m.config.get_int("num_experts_per_tok", 2, 1, experts) == 2,
                   "this num_experts_per_tok");
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", 2);
  if (const int64_t window = window_of(m.config); window > 0)
    m.keys.set_int("attention.sliding_window", window);
  m.ends();
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"block_sparse_moe.gate", "ffn_gate_inp"},
            {"mlp.router", "ffn_gate_inp"}});
  m.attention();
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const bool merged = m.tensors.has(layer_name(i, "mlp.experts.gate_up_proj"));
    add_experts(m.tensors, i, merged ? "mlp.experts" : "block_sparse_moe.experts", experts,
                {"w1", "w3", "w2"});
  }
  map_factors(m);
}

}  // namespace

const ArchDef& phimoe_arch() {
  static constexpr const char* kNames[] = {"phimoe"};
  static constexpr const char* kCheckpoints[] = {"PhimoeForCausalLM", "PhiMoEForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
