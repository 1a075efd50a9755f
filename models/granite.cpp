// Granite 3 and its experts: the plain decoder with interleaved RoPE and constant factors on
// embeddings, scores, residuals and logits. IBM Research 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  model->embedding_scale = static_cast<float>(r.get_float("embedding_scale", 1.0));
  model->residual_scale = static_cast<float>(r.get_float("residual_scale", 1.0));
  // What the key is used for: models without position embedding hold false.
  const bool rotate = r.get_bool("rope.scaling.finetuned", true);
  for (AttentionBlock& block : model->attention) block.rotate = rotate;
  const double divisor = r.get_float("logit_scale", 1.0);
  if (!(divisor > 0)) {
    r.set_error(error(StatusCode::bad_file, "{}: logit_scale: expected more than 0, found {}",
                      r.metadata().source(), divisor));
  }
  model->logit_scale = static_cast<float>(1.0 / divisor);
  return DecoderModel::finish(std::move(model), r);
}

/// The experts' gate and up projections are one tensor, as are those of the expert that every token
/// takes.
void map_experts(CheckpointMap& m) {
  const int64_t experts = m.config.need_int("num_local_experts", 1, 65536);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  m.layers({{"block_sparse_moe.router.layer", "ffn_gate_inp"},
            {"block_sparse_moe.output_linear", "ffn_down_exps"},
            {"shared_mlp.output_linear", "ffn_down_shexp"}});
  const int64_t shared = m.config.get_int("shared_intermediate_size", 0, 0, 1 << 20);
  if (shared > 0) m.keys.set_int("expert_shared_feed_forward_length", shared);
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const std::string to = block_name(i, "ffn_");
    m.tensors.split_rows(layer_name(i, "block_sparse_moe.input_linear.weight"),
                         to + "gate_exps.weight", to + "up_exps.weight");
    if (shared == 0) continue;
    m.tensors.split_rows(layer_name(i, "shared_mlp.input_linear.weight"), to + "gate_shexp.weight",
                         to + "up_shexp.weight");
  }
}

void map(CheckpointMap& m) {
  const bool routed = m.config.checkpoint() != "GraniteForCausalLM";
  m.begin({.architecture = routed ? "granitemoe" : "granite"});
  m.keys.set_float("embedding_scale", m.config.get_float("embedding_multiplier", 1.0));
  m.keys.set_float("residual_scale", m.config.get_float("residual_multiplier", 1.0));
  m.keys.set_float("attention.scale", m.config.get_float("attention_multiplier", 1.0));
  m.keys.set_float("logit_scale", m.config.get_float("logits_scaling", 1.0));
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention(true);
  routed ? map_experts(m) : m.feed_forward();
}

}  // namespace

const ArchDef& granite_arch() {
  static constexpr const char* kNames[] = {"granite", "granitemoe"};
  static constexpr const char* kCheckpoints[] = {"GraniteForCausalLM", "GraniteMoeForCausalLM",
                                                 "GraniteMoeSharedForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
