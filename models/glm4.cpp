// GLM-4 (0414): norms before and after each part, fused gate/up, interleaved RoPE over part of the
// head, biases on q, k and v. GLM Team 2024.
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  model->post_norms = true;
  return DecoderModel::finish(std::move(model), r);
}

}  // namespace

const ArchDef& glm4_arch() {
  static constexpr const char* kNames[] = {"glm4"};
  static const ArchDef def{kNames, create};
  return def;
}

}  // namespace infer
