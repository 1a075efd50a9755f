// Maple: a window and half-split RoPE in some layers and neither in the others, an RMSNorm on every
// q and k head, experts with limits on what SwiGLU multiplies. Deep Grove 2026.
#include <algorithm>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr float kLimit = 7.0f;  // no key of configurations says it

class Maple final : public DecoderModel {
 public:
  explicit Maple(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    experts.route = read_route(r, params, 1, true);
    experts.limits_gate = true;
    const std::vector<float> limits = r.limits("swiglu_clamp_exp", params.layers);
    if (!limits.empty()) experts.limit = limits.front();
    if (std::ranges::any_of(limits, [&](float limit) { return limit != experts.limit; })) {
      r.set_error(error(StatusCode::unsupported,
                        "{}: swiglu_clamp_exp: expected one limit for all layers",
                        r.metadata().source()));
    }
    std::vector<bool> sliding = r.flags("attention.sliding_window_pattern", params.layers);
    if (sliding.empty()) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: attention.sliding_window_pattern: expected a flag for each layer",
                        r.metadata().source()));
      sliding.resize(static_cast<size_t>(params.layers), false);
    }
    for (AttentionBlock& block : attention) {
      block.qk_norm = AttentionBlock::QkNorm::per_head;
      block.rotate = sliding[static_cast<size_t>(block.layer)];
    }
    set_windows_with_own_rope(r, sliding, info_.ropes[0].base);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Maple>(r), r);
}

void map(CheckpointMap& m) {
  const int64_t width = m.config.need_int("moe_intermediate_size", 1, kMaxWidth);
  m.config.assume("intermediate_size", width);
  m.begin({.architecture = "maple"});
  m.config.require(m.config.get_int("num_shared_experts", 0, 0, 1024) == 0, "num_shared_experts");
  m.config.require(m.config.get_bool("norm_topk_prob", true), "norm_topk_prob false");
  m.config.require(m.config.get_bool("nope_on_global_attention", false),
                   "nope_on_global_attention false");
  std::vector<bool> sliding;
  if (const std::vector<std::string>* kinds = m.config.get_strings("layer_types")) {
    for (const std::string& kind : *kinds) {
      sliding.push_back(kind == "sliding_attention");
      m.config.require(sliding.back() || kind == "full_attention", "these layer_types");
    }
  }
  m.config.require(std::ssize(sliding) == m.layer_count(),
                   "layer_types for another number of layers");
  const int64_t experts = map_expert_counts(m);
  m.keys.set_int("expert_feed_forward_length", width);
  m.keys.set_int("attention.sliding_window", m.config.need_int("sliding_window", 1, INT32_MAX));
  m.keys.set_flags("attention.sliding_window_pattern", sliding);
  m.keys.set_floats("swiglu_clamp_exp",
                    std::vector<float>(static_cast<size_t>(m.layer_count()), kLimit));
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

const ArchDef& maple_arch() {
  static constexpr const char* kNames[] = {"maple"};
  static constexpr const char* kCheckpoints[] = {"MapleForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
