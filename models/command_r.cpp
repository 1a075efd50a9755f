// Command R, Aya, Command R7B and Command A: LayerNorm, attention and feed-forward side by side on
// one norm, interleaved RoPE, logits scaled by a factor. Command R+ has a LayerNorm on every q and
// k head; the later "cohere2" has a sliding window with RoPE in three of four layers, and neither
// in the fourth. Cohere 2024 and 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr int64_t kPeriod = 4;  // of the layers that see everything

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  model->params.eps = r.epsilon("attention.layer_norm_epsilon");
  model->layer_norms = true;
  model->parallel = true;
  model->logit_scale = static_cast<float>(r.get_float("logit_scale", 1.0));
  const bool head_norms = source.find("blk.0.attn_q_norm.weight") != nullptr;
  for (AttentionBlock& block : model->attention) {
    block.eps = model->params.eps;
    if (head_norms) block.qk_norm = AttentionBlock::QkNorm::layer;
  }
  if (r.architecture() == "cohere2") model->set_windows_with_rope(r, kPeriod);
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  const bool second = m.config.checkpoint() == "Cohere2ForCausalLM";
  m.config.assume("tie_word_embeddings", true);
  m.begin({.architecture = second ? "cohere2" : "command-r",
           .rope_base = 500000.0,
           .layer_norms = true});
  // Of Command R max_position_embeddings is less than it can do.
  if (m.config.has("model_max_length")) {
    m.keys.set_int("context_length", m.config.need_int("model_max_length", 1, kMaxContext));
  }
  m.keys.set_float("logit_scale", m.config.get_float("logit_scale", 0.0625));
  if (second) {
    m.keys.set_int("attention.sliding_window",
                   m.config.get_int("sliding_window", 4096, 1, INT32_MAX));
    map_sliding_layers(m, kPeriod);
  }
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& command_r_arch() {
  static constexpr const char* kNames[] = {"command-r", "cohere2"};
  static constexpr const char* kCheckpoints[] = {"CohereForCausalLM", "Cohere2ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
