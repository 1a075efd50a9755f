// Granite 3 and its experts: the plain decoder with interleaved RoPE and constant factors on
// embeddings, scores, residuals and logits. IBM Research 2024.
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  model->embedding_scale = static_cast<float>(r.get_float("embedding_scale", 1.0));
  model->residual_scale = static_cast<float>(r.get_float("residual_scale", 1.0));
  // What the key is used for: models without position embedding hold false.
  const bool rotate = r.get_bool("rope.scaling.finetuned", true);
  for (AttentionBlock& block : model->attention) block.rotate = rotate;
  const double divisor = r.get_float("logit_scale", 1.0);
  if (!(divisor > 0)) {
    r.set_error(error(StatusCode::bad_file, "{}: logit_scale: expected more than 0, found {}",
                      r.metadata().source(), divisor));
  }
  model->logit_scale = static_cast<float>(1.0 / divisor);
  return DecoderModel::finish(std::move(model), r);
}

}  // namespace

const ArchDef& granite_arch() {
  static constexpr const char* kNames[] = {"granite", "granitemoe"};
  static const ArchDef def{kNames, create};
  return def;
}

}  // namespace infer
