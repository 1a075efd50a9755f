// Muse Glimmer (text): a norm without weights on the embedding, norms before and after each part,
// those after with an epsilon of their own; an RMSNorm on every q and k head, a gate on what the
// heads make, a sliding window with interleaved RoPE in three of four layers and neither in the
// fourth; logits scaled and soft-capped. Meta 2026.
#include <algorithm>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr int64_t kPeriod = 4;  // of the layers that see everything
constexpr float kPostEps = 1e-8f;

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  model->embedding_norm = true;
  model->post_norms = true;
  model->post_eps = kPostEps;
  model->logit_scale = static_cast<float>(r.get_float("logit_scale", 1.0));
  model->logit_softcap = static_cast<float>(r.get_float("final_logit_softcapping", 0.0));
  RopeSpec& rope = model->mutable_info().ropes[0];  // only layers with a window have it
  rope.base = r.get_float("rope.freq_base_swa", rope.base);
  model->set_windows_with_rope(r, kPeriod);
  for (AttentionBlock& block : model->attention) {
    block.qk_norm = AttentionBlock::QkNorm::per_head;
    block.gate = AttentionBlock::Gate::apart;
  }
  return DecoderModel::finish(std::move(model), r);
}

/// The base of RoPE by layer, 0 for those without, which are to be those without a window.
void map_bases(CheckpointMap& m, const std::vector<bool>& sliding) {
  const std::vector<float> bases = m.config.get_floats("layer_rope_theta");
  if (bases.empty()) return;
  const float base = *std::ranges::max_element(bases);
  bool same = bases.size() == sliding.size();
  for (size_t i = 0; same && i < bases.size(); ++i) same = bases[i] == (sliding[i] ? base : 0);
  m.config.require(same, "this layer_rope_theta");
  if (base > 0) m.keys.set_float("rope.freq_base_swa", base);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "muse-glimmer"});
  m.config.require(m.config.get_float("post_norm_eps", 1e-8) == 1e-8, "this post_norm_eps");
  m.keys.set_float("logit_scale", m.config.get_float("output_multiplier", 0.19611613513818404));
  m.keys.set_float("final_logit_softcapping", m.config.get_float("final_logit_softcapping", 20.0));
  m.keys.set_int("attention.sliding_window",
                 m.config.get_int("sliding_window", 2048, 1, INT32_MAX));
  map_bases(m, map_sliding_layers(m, kPeriod));
  m.ends();
  m.layers({{"input_layernorm", "attn_norm", Change::add_one},
            {"post_attention_layernorm", "post_attention_norm", Change::add_one},
            {"pre_feedforward_layernorm", "ffn_norm", Change::add_one},
            {"post_feedforward_layernorm", "post_ffw_norm", Change::add_one},
            {"self_attn.gate_proj", "attn_gate"}});
  m.attention();
  m.feed_forward();
  // The norms of heads have no weights, and queries a factor.
  const auto width = static_cast<size_t>(m.config.get_int("head_dim", 128, 1, kMaxWidth));
  const auto factor = static_cast<float>(m.config.get_float("qk_scale_factor", 3.87));
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.put_values(block_name(i, "attn_q_norm.weight"), std::vector<float>(width, factor));
    m.tensors.put_values(block_name(i, "attn_k_norm.weight"), std::vector<float>(width, 1.0f));
  }
}

}  // namespace

const ArchDef& muse_glimmer_arch() {
  static constexpr const char* kNames[] = {"muse-glimmer"};
  static constexpr const char* kCheckpoints[] = {"MuseGlimmerForConditionalGeneration"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
