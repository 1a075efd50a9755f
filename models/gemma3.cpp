// Gemma 3 (text): as Gemma 2 without soft caps, with an RMSNorm on every q and k head; five layers
// with a sliding window and their own RoPE base to one that sees everything. Gemma Team 2025.
#include "engine/model/decoder.h"

#include <cmath>

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  const DecoderParams& p = model->params;
  model->embedding_scale = std::sqrt(static_cast<float>(p.embedding));
  model->post_norms = true;
  model->glu.kind = op::Glu::Kind::gelu_tanh;
  model->logit_softcap = static_cast<float>(r.get_float("final_logit_softcapping", 0.0));
  RopeSpec local = model->mutable_info().ropes[0];
  local.base = r.get_float("rope.freq_base_swa", 10000.0);
  local.position_scale = 1.0;  // only the global layers are stretched
  if (!r.has("rope.freq_base")) model->mutable_info().ropes[0].base = 1e6;
  model->mutable_info().ropes.push_back(local);
  const auto window = r.get_int("attention.sliding_window", 1024, 0, INT32_MAX);
  for (AttentionBlock& block : model->attention) {
    block.qk_norm = AttentionBlock::QkNorm::per_head;
    // The 27B model divides by the width a head would have without its own key length.
    if (p.layers == 62 && !r.has("attention.scale")) {
      block.scale = 1.0f / std::sqrt(static_cast<float>(p.embedding / p.heads));
    }
    if (block.layer % 6 < 5) {
      block.rope = 1;
      model->set_window(block.layer, static_cast<int32_t>(window));
    }
  }
  return DecoderModel::finish(std::move(model), r);
}

}  // namespace

const ArchDef& gemma3_arch() {
  static constexpr const char* kNames[] = {"gemma3"};
  static const ArchDef def{kNames, create};
  return def;
}

}  // namespace infer
