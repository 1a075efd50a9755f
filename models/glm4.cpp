// GLM-4 (0414): norms before and after each part, fused gate/up, interleaved RoPE over part of the
// head, biases on q, k and v. GLM Team 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  model->post_norms = true;
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.config.assume("partial_rotary_factor", 0.5);
  m.begin({.architecture = "glm4"});
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_self_attn_layernorm", "post_attention_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"post_mlp_layernorm", "post_ffw_norm"},
            {"mlp.gate_up_proj", "ffn_up"},
            {"mlp.down_proj", "ffn_down"}});
  m.attention();
}

}  // namespace

const ArchDef& glm4_arch() {
  static constexpr const char* kNames[] = {"glm4"};
  static constexpr const char* kCheckpoints[] = {"Glm4ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
