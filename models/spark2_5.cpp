// Spark 2.5: half-split RoPE, a sliding window with a RoPE of its own in most layers, a gate for
// each head on what it makes, and GELU in the feed-forward. iFLYTEK 2026.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->glu.kind = op::Glu::Kind::gelu;
  for (AttentionBlock& block : model->attention) block.gate = AttentionBlock::Gate::of_heads;
  model->set_windows_with_own_rope(r, r.sliding_layers(model->params.layers, 0),
                                   model->mutable_info().ropes[0].base);
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "spark2_5", .activation = "gelu"});
  m.config.require(m.config.get_string("gate_attn_act_mode", "sigmoid") == "sigmoid",
                   "this gate_attn_act_mode");
  m.config.require(m.config.get_bool("headwise_attn_output_gate", true),
                   "headwise_attn_output_gate false");
  m.config.require(m.config.has("layer_types"), "a configuration without layer_types");
  map_sliding_layers(m, 0);
  m.keys.set_int("attention.sliding_window", m.config.need_int("sliding_window", 1, INT32_MAX));
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth) / m.head_count();
  map_window_rope(m, m.config.get_int("head_dim", width, 1, kMaxWidth));
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.q_k_v_proj", "attn_qkv"},
            {"self_attn.g_proj", "attn_gate"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& spark2_5_arch() {
  static constexpr const char* kNames[] = {"spark2_5"};
  static constexpr const char* kCheckpoints[] = {"Spark2_5ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
