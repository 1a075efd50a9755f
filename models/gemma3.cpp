// Gemma 3 (text): as Gemma 2 without soft caps, with an RMSNorm on every q and k head; five layers
// with a sliding window and their own RoPE base to one that sees everything. Gemma Team 2025. In
// EmbeddingGemma every token of a text sees all others, or those of a window to both sides.
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
  model->logit_softcap = static_cast<float>(r.get_float("final_logit_softcapping", 0.0));
  std::vector<RopeSpec>& ropes = model->mutable_info().ropes;
  if (!r.has("rope.freq_base")) ropes[0].base = 1e6;
  ropes.push_back(unscaled(ropes[0], r.get_float("rope.freq_base_swa", 10000.0)));
  model->mutable_info().sight = ImageSight::whole;
  if (r.architecture() == "gemma-embedding") model->mutable_info().causal = false;
  const auto window = r.get_int("attention.sliding_window", 1024, 0, INT32_MAX);
  for (AttentionBlock& block : model->attention) {
    block.qk_norm = AttentionBlock::QkNorm::per_head;
    // The 27B model divides by the width a head would have without its own key length.
    if (p.layers == 62 && !r.has("attention.scale")) {
      block.scale = 1.0f / std::sqrt(static_cast<float>(p.embedding / p.heads));
    }
    if (block.layer % 6 < 5) {
      block.rope = 1;
      model->set_window(block.layer, static_cast<int32_t>(window));
    }
  }
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  // The configurations of the models that also see name what is not a default alone.
  m.config.assume("num_attention_heads", int64_t{8});
  m.config.assume("num_key_value_heads", int64_t{4});
  m.config.assume("head_dim", int64_t{256});
  m.config.assume("max_position_embeddings", int64_t{131072});
  m.config.assume("hidden_activation", std::string("gelu_pytorch_tanh"));
  m.config.assume("rope_theta", 1e6);
  const bool both_ways = m.config.get_bool("use_bidirectional_attention", false);
  m.begin({.architecture = both_ways ? "gemma-embedding" : "gemma3",
           .activation = "gelu_pytorch_tanh"});
  require_layer_types(m, [](int64_t layer) { return layer % 6 < 5; });
  m.config.require(m.config.get_int("sliding_window_pattern", 6, 0, INT32_MAX) == 6,
                   "this sliding_window_pattern");
  m.config.require(m.config.get_float("attn_logit_softcapping", 0.0) == 0,
                   "attn_logit_softcapping");
  m.keys.set_int("attention.sliding_window",
                 m.config.get_int("sliding_window", 4096, 1, INT32_MAX));
  m.keys.set_float("rope.freq_base_swa",
                   m.config.get_float("rope_parameters.sliding_attention.rope_theta",
                                      m.config.get_float("rope_local_base_freq", 10000.0)));
  m.keys.set_float("final_logit_softcapping", m.config.get_float("final_logit_softcapping", 0.0));
  m.keys.set_float("attention.scale",
                   1.0 / std::sqrt(m.config.get_float("query_pre_attn_scalar", 256)));
  m.ends(Change::add_one);
  m.layers({{"input_layernorm", "attn_norm", Change::add_one},
            {"post_attention_layernorm", "post_attention_norm", Change::add_one},
            {"pre_feedforward_layernorm", "ffn_norm", Change::add_one},
            {"post_feedforward_layernorm", "post_ffw_norm", Change::add_one},
            {"self_attn.q_norm", "attn_q_norm", Change::add_one},
            {"self_attn.k_norm", "attn_k_norm", Change::add_one}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& gemma3_arch() {
  static constexpr const char* kNames[] = {"gemma3", "gemma-embedding"};
  static constexpr const char* kCheckpoints[] = {
      "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration", "Gemma3TextModel"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
