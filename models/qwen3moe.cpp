// Qwen 3 with experts: as Qwen 3, each feed-forward a choice of experts by softmax, the weights of
// the chosen ones summing to one. Yang et al. 2025.
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
  return DecoderModel::finish(std::move(model), r);
}

}  // namespace

const ArchDef& qwen3moe_arch() {
  static constexpr const char* kNames[] = {"qwen3moe"};
  static const ArchDef def{kNames, create};
  return def;
}

}  // namespace infer
