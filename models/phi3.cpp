// Phi-3, Phi-3.5, Phi-4: fused q/k/v and gate/up, half-split RoPE over part of the head, whose
// frequencies are divided by one set of factors for short contexts and another for long ones
// (LongRoPE, Ding et al. 2024). Abdin et al. 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  RopeSpec& rope = model->mutable_info().ropes[0];
  rope.factors = weight_index(source, "rope_factors_short.weight");
  rope.long_factors = weight_index(source, "rope_factors_long.weight");
  rope.original_context = static_cast<double>(
      r.get_int("rope.scaling.original_context_length", model->params.context, 1, INT32_MAX));
  const auto window = r.get_int("attention.sliding_window", 0, 0, INT32_MAX);
  for (int64_t layer = 0; layer < model->params.layers; ++layer) {
    model->set_window(layer, static_cast<int32_t>(window));
  }
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "phi3", .long_rope = true});
  if (const int64_t window = window_of(m.config); window > 0)
    m.keys.set_int("attention.sliding_window", window);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.qkv_proj", "attn_qkv"},
            {"self_attn.o_proj", "attn_output"},
            {"mlp.gate_up_proj", "ffn_up"},
            {"mlp.down_proj", "ffn_down"}});
  map_long_rope(m);
}

}  // namespace

const ArchDef& phi3_arch() {
  static constexpr const char* kNames[] = {"phi3"};
  static constexpr const char* kCheckpoints[] = {"Phi3ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
