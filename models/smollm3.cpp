// SmolLM3: the plain decoder with interleaved RoPE, left out in every fourth layer (NoPE, Yang et
// al. 2025). Bakouch et al. 2025.
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  for (AttentionBlock& block : model->attention) block.rotate = (block.layer + 1) % 4 != 0;
  return DecoderModel::finish(std::move(model), r);
}

}  // namespace

const ArchDef& smollm3_arch() {
  static constexpr const char* kNames[] = {"smollm3"};
  static const ArchDef def{kNames, create};
  return def;
}

}  // namespace infer
