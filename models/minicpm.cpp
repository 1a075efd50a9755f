// MiniCPM 1, 2 and 4: the plain decoder with interleaved RoPE and constant factors on embeddings,
// residuals and logits. MiniCPM4 divides RoPE's frequencies by one set of factors for short
// contexts and another for long ones (LongRoPE). Hu et al. 2024; MiniCPM Team 2025.
#include "engine/core/log.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"
#include "engine/model/minicpm_scales.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  read_minicpm_scales(r, *model);
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.config.assume("tie_word_embeddings", true);
  m.begin({.architecture = "minicpm", .long_rope = true});
  m.config.require(m.config.get_int("num_experts", 0, 0, 65536) == 0, "num_experts");
  map_minicpm_scales(m, {});
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
