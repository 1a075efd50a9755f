// Qwen 2 and 2.5: the plain decoder with half-split RoPE and biases on q, k and v.
// Yang et al. 2024.
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  return DecoderModel::finish(std::move(model), r);
}

}  // namespace

const ArchDef& qwen2_arch() {
  static constexpr const char* kNames[] = {"qwen2"};
  static const ArchDef def{kNames, create};
  return def;
}

}  // namespace infer
