// OLMo 2 and 3: norms after each part in place of before, an RMSNorm over all of q and of k,
// half-split RoPE. OLMo 3 has a sliding window, without RoPE scaling, in three of four layers.
// OLMo Team 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->pre_norms = false;
  model->post_norms = true;
  std::vector<bool> sliding;
  for (AttentionBlock& block : model->attention) {
    block.qk_norm = AttentionBlock::QkNorm::whole;
    sliding.push_back((block.layer + 1) % 4 != 0);
  }
  if (r.get_int("attention.sliding_window", 0, 0, INT32_MAX) > 0) {
    model->set_windows_with_own_rope(r, sliding, model->mutable_info().ropes[0].base);
  }
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "olmo2",
           .rope_base = m.config.checkpoint() == "Olmo3ForCausalLM" ? 500000.0 : 10000.0});
  if (m.config.checkpoint() == "Olmo3ForCausalLM") {
    require_layer_types(m, [](int64_t layer) { return (layer + 1) % 4 != 0; });
    m.keys.set_int("attention.sliding_window", m.config.need_int("sliding_window", 1, INT32_MAX));
    if (const double base = m.config.get_float("rope_parameters.sliding_attention.rope_theta", 0.0);
        base != 0) {
      m.keys.set_float("rope.freq_base_swa", base);
    }
  }
  m.ends();
  m.layers({{"post_attention_layernorm", "post_attention_norm"},
            {"post_feedforward_layernorm", "post_ffw_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& olmo2_arch() {
  static constexpr const char* kNames[] = {"olmo2"};
  static constexpr const char* kCheckpoints[] = {"Olmo2ForCausalLM", "Olmo3ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
