// Seed-OSS: the plain decoder with half-split RoPE and biases on q, k and v. ByteDance Seed 2025.
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->ffn_norm_name = "post_attention_norm";  // what the files call the norm before it
  return DecoderModel::finish(std::move(model), r);
}

}  // namespace

const ArchDef& seed_oss_arch() {
  static constexpr const char* kNames[] = {"seed_oss"};
  static const ArchDef def{kNames, create};
  return def;
}

}  // namespace infer
