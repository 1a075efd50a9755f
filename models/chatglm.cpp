// ChatGLM 2 and 3, GLM-4 9B (0520): interleaved RoPE over a part of the head, biases on q, k and v,
// fused gate/up. GLM Team 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.config.assume("partial_rotary_factor", 0.5);
  m.config.assume("rms_norm_eps", 1.5625e-7);
  m.begin({.architecture = "chatglm"});
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"mlp.gate_up_proj", "ffn_up"},
            {"mlp.down_proj", "ffn_down"}});
  m.attention();
}

}  // namespace

const ArchDef& chatglm_arch() {
  static constexpr const char* kNames[] = {"chatglm"};
  static constexpr const char* kCheckpoints[] = {"GlmForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
