// Qwen 3 and its experts: the plain decoder with half-split RoPE and an RMSNorm on every q and k
// head; in the expert models each feed-forward is a choice by softmax, the weights of the chosen
// ones summing to one. Yang et al. 2025.
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

const ArchDef& qwen3_arch() {
  static constexpr const char* kNames[] = {"qwen3", "qwen3moe"};
  static const ArchDef def{kNames, create};
  return def;
}

}  // namespace infer
