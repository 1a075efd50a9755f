// Gemma 2: embeddings scaled by √width, norms before and after each part, GELU, soft caps on scores
// and logits, every other layer with a sliding window. Gemma Team 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

#include <cmath>

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  const DecoderParams& p = model->params;
  model->embedding_scale = std::sqrt(static_cast<float>(p.embedding));
  model->post_norms = true;
  model->glu.kind = op::Glu::Kind::gelu_tanh;
  model->logit_softcap = static_cast<float>(r.get_float("final_logit_softcapping", 30.0));
  const auto softcap = static_cast<float>(r.get_float("attn_logit_softcapping", 50.0));
  const auto window = r.get_int("attention.sliding_window", 4096, 0, INT32_MAX);
  for (AttentionBlock& block : model->attention) {
    block.softcap = softcap;
    // The 27B model divides by the width a head would have without its own key length.
    if (p.layers == 46 && !r.has("attention.scale")) {
      block.scale = 1.0f / std::sqrt(static_cast<float>(p.embedding / p.heads));
    }
    if (block.layer % 2 == 0) model->set_window(block.layer, static_cast<int32_t>(window));
  }
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "gemma2", .activation = "gelu_pytorch_tanh"});
  require_layer_types(m, [](int64_t layer) { return layer % 2 == 0; });
  m.config.require(!m.config.get_bool("use_bidirectional_attention", false),
                   "use_bidirectional_attention");
  m.keys.set_int("attention.sliding_window",
                 m.config.get_int("sliding_window", 4096, 1, INT32_MAX));
  // transformers always writes these two; null is none.
  m.keys.set_float("attn_logit_softcapping", m.config.get_float("attn_logit_softcapping", 0.0));
  m.keys.set_float("final_logit_softcapping", m.config.get_float("final_logit_softcapping", 0.0));
  m.keys.set_float("attention.scale",
                   1.0 / std::sqrt(m.config.get_float("query_pre_attn_scalar", 256)));
  m.ends(Change::add_one);
  m.layers({{"input_layernorm", "attn_norm", Change::add_one},
            {"post_attention_layernorm", "post_attention_norm", Change::add_one},
            {"pre_feedforward_layernorm", "ffn_norm", Change::add_one},
            {"post_feedforward_layernorm", "post_ffw_norm", Change::add_one}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& gemma2_arch() {
  static constexpr const char* kNames[] = {"gemma2"};
  static constexpr const char* kCheckpoints[] = {"Gemma2ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
