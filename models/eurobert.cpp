// EuroBERT (Boizard et al. 2025): the plain decoder with half-split RoPE, in which every token of a
// text sees all others.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->mutable_info().causal = false;
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "eurobert"});
  m.keys.set_bool("attention.causal", false);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& eurobert_arch() {
  static constexpr const char* kNames[] = {"eurobert"};
  static constexpr const char* kCheckpoints[] = {"EuroBertModel", "EuroBertForMaskedLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
