// Phi-3, Phi-3.5, Phi-4: fused q/k/v and gate/up, half-split RoPE over part of the head, whose
// frequencies are divided by one set of factors for short contexts and another for long ones
// (LongRoPE, Ding et al. 2024). Abdin et al. 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

#include <cmath>

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
  const std::string section = rope_section(m.config);
  const std::string type =
      m.config.get_string(section + "rope_type", m.config.get_string(section + "type", "default"));
  if (type != "longrope" && type != "su") return;
  const int64_t context = m.config.need_int("max_position_embeddings", 1, INT32_MAX);
  const int64_t original = m.config.get_int(
      "original_max_position_embeddings",
      m.config.get_int(section + "original_max_position_embeddings", context, 1, INT32_MAX), 1,
      INT32_MAX);
  // cos and sin grow with the stretch of the context, as the paper found best.
  const double stretch = m.config.get_float(
      section + "factor", static_cast<double>(context) / static_cast<double>(original));
  const double magnitude =
      stretch <= 1 ? 1.0
                   : std::sqrt(1 + std::log(stretch) / std::log(static_cast<double>(original)));
  m.keys.set_int("rope.scaling.original_context_length", original);
  m.keys.set_float("rope.scaling.attn_factor",
                   m.config.get_float(section + "attention_factor", magnitude));
  for (const char* which : {"long", "short"}) {
    std::vector<float> factors = m.config.get_floats(section + which + "_factor");
    if (static_cast<int64_t>(factors.size()) != m.rope_pairs()) {
      m.config.fail_with(error(StatusCode::bad_file,
                               "{}: {}{}_factor: expected {} numbers, found {}", m.config.source(),
                               section, which, m.rope_pairs(), factors.size()));
    }
    m.tensors.put_values(std::string("rope_factors_") + which + ".weight", std::move(factors));
  }
}

}  // namespace

const ArchDef& phi3_arch() {
  static constexpr const char* kNames[] = {"phi3"};
  static constexpr const char* kCheckpoints[] = {"Phi3ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
