// OLMo 2: norms after each part in place of before, an RMSNorm over all of q and of k, half-split
// RoPE. OLMo Team 2025.
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->pre_norms = false;
  model->post_norms = true;
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::whole;
  return DecoderModel::finish(std::move(model), r);
}

}  // namespace

const ArchDef& olmo2_arch() {
  static constexpr const char* kNames[] = {"olmo2"};
  static const ArchDef def{kNames, create};
  return def;
}

}  // namespace infer
