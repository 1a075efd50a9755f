// MiniCPM 1, 2 and 4: the plain decoder with interleaved RoPE and constant factors on embeddings,
// residuals and logits. MiniCPM4 divides RoPE's frequencies by one set of factors for short
// contexts and another for long ones (LongRoPE). Hu et al. 2024; MiniCPM Team 2025.
#include <cmath>

#include "engine/core/log.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  // Files without these keys are of MiniCPM 1.
  const DecoderParams& params = model->params;
  model->embedding_scale = static_cast<float>(r.get_float("embedding_scale", 12.0));
  model->residual_scale = static_cast<float>(
      r.get_float("residual_scale", 1.4 / std::sqrt(static_cast<double>(params.layers))));
  const double divisor = r.get_float("logit_scale", static_cast<double>(params.embedding) / 256);
  if (!(divisor > 0)) {
    r.set_error(error(StatusCode::bad_file, "{}: logit_scale: expected more than 0, found {}",
                      r.metadata().source(), divisor));
  }
  model->logit_scale = static_cast<float>(1.0 / divisor);
  if (const int32_t factors = weight_index(source, "rope_factors_long.weight"); factors >= 0) {
    RopeSpec& rope = model->mutable_info().ropes[0];
    rope.factors = weight_index(source, "rope_factors_short.weight");
    rope.long_factors = factors;
    rope.original_context = static_cast<double>(
        r.get_int("rope.scaling.original_context_length", params.context, 1, INT32_MAX));
  }
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.config.assume("tie_word_embeddings", true);
  m.begin({.architecture = "minicpm", .long_rope = true});
  m.config.require(m.config.get_int("num_experts", 0, 0, 65536) == 0, "num_experts");
  const auto width = static_cast<double>(m.config.need_int("hidden_size", 1, 1 << 20));
  const auto base = static_cast<double>(m.config.get_int("dim_model_base", 1, 1, 1 << 20));
  m.keys.set_float("embedding_scale", m.config.get_float("scale_emb", 1.0));
  m.keys.set_float("residual_scale", m.config.get_float("scale_depth", 1.0) /
                                         std::sqrt(static_cast<double>(m.layer_count())));
  m.keys.set_float("logit_scale", width / base);
  if (m.config.has("sparse_config.dense_len")) {
    log(LogLevel::warning,
        "{}: sparse_config is not applied: queries see all tokens, also in texts of more than {}",
        m.config.source(), m.config.get_int("sparse_config.dense_len", 0, 0, INT32_MAX));
  }
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
  if (map_long_rope(m)) m.keys.set_string("rope.scaling.type", "longrope");
}

}  // namespace

const ArchDef& minicpm_arch() {
  static constexpr const char* kNames[] = {"minicpm"};
  static constexpr const char* kCheckpoints[] = {"MiniCPMForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
