// OLMo 1: LayerNorms without weights, interleaved RoPE, queries, keys and values held within a
// limit in the 7B models of 2024. Groeneveld et al. 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  model->params.eps = r.epsilon("attention.layer_norm_epsilon");
  model->layer_norms = true;
  model->plain_norms = true;
  model->read_clamp(r);
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "olmo", .layer_norms = true});
  m.keys.set_float("attention.layer_norm_epsilon", 1e-5);  // no key says it
  if (const double limit = m.config.get_float("clip_qkv", 0.0); limit > 0) {
    m.keys.set_float("attention.clamp_kqv", limit);
  }
  m.ends();
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& olmo_arch() {
  static constexpr const char* kNames[] = {"olmo"};
  static constexpr const char* kCheckpoints[] = {"OlmoForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
