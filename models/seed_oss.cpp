// Seed-OSS: the plain decoder with half-split RoPE and biases on q, k and v. ByteDance Seed 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->ffn_norm_name = "post_attention_norm";  // what the files call the norm before it
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "seed_oss"});
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "post_attention_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& seed_oss_arch() {
  static constexpr const char* kNames[] = {"seed_oss"};
  static constexpr const char* kCheckpoints[] = {"SeedOssForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
