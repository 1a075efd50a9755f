// SmolLM3: the plain decoder with interleaved RoPE, left out in every fourth layer (NoPE, Yang et
// al. 2025). Bakouch et al. 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  for (AttentionBlock& block : model->attention) block.rotate = (block.layer + 1) % 4 != 0;
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "smollm3", .rope_base = 2e6});
  require_no_window(m);
  m.config.require(m.config.get_int("no_rope_layer_interval", 4, 0, 1024) == 4,
                   "this no_rope_layer_interval");
  const std::vector<int64_t> rotated = m.config.get_ints("no_rope_layers");  // 1: a layer with RoPE
  for (size_t i = 0; i < rotated.size(); ++i) {
    m.config.require(rotated[i] == ((i + 1) % 4 != 0 ? 1 : 0), "this order of no_rope_layers");
  }
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& smollm3_arch() {
  static constexpr const char* kNames[] = {"smollm3"};
  static constexpr const char* kCheckpoints[] = {"SmolLM3ForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
