// Qwen of the first generation: the plain decoder with half-split RoPE and biases on queries, keys
// and values, which one matrix makes. Bai et al. 2023.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  // Files give the width of the gate's rows and the others together.
  for (int64_t& width : model->params.feed_forward) width /= 2;
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  m.config.assume("max_position_embeddings", m.config.get_int("seq_length", 8192, 1, kMaxContext));
  m.config.assume("rms_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-6));
  m.config.assume("hidden_act", std::string("silu"));
  m.config.assume("rope_theta", m.config.get_float("rotary_emb_base", 10000.0));
  m.config.assume("partial_rotary_factor", m.config.get_float("rotary_pct", 1.0));
  m.begin({.architecture = "qwen", .table = "wte.weight"});
  require_plain_rope(m);
  m.config.require(m.config.get_bool("scale_attn_weights", true), "scale_attn_weights false");
  m.config.require(
      m.config.get_int("kv_channels", width / m.head_count(), 1, kMaxWidth) * m.head_count() ==
          width,
      "kv_channels that do not make the width");
  m.tensors.also_named("wte.", "embed_tokens.");
  m.tensors.also_named("ln_f.", "norm.");
  m.tensors.also_named("h.", "layers.");
  m.ends();
  m.layers({{"ln_1", "attn_norm"},
            {"ln_2", "ffn_norm"},
            {"attn.c_attn", "attn_qkv"},
            {"attn.c_proj", "attn_output"},
            {"mlp.w1", "ffn_up"},
            {"mlp.w2", "ffn_gate"},
            {"mlp.c_proj", "ffn_down"}});
}

}  // namespace

const ArchDef& qwen_arch() {
  static constexpr const char* kNames[] = {"qwen"};
  static constexpr const char* kCheckpoints[] = {"QWenLMHeadModel"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
