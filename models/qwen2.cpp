// Qwen 2 and 2.5: the plain decoder with half-split RoPE and biases on q, k and v.
// Yang et al. 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "qwen2"});
  require_no_window(m);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& qwen2_arch() {
  static constexpr const char* kNames[] = {"qwen2"};
  static constexpr const char* kCheckpoints[] = {"Qwen2ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
