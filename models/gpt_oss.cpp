// gpt-oss: experts with a clamped SwiGLU and biases, chosen before the softmax; attention sinks,
// every other layer with a sliding window; YaRN without rounding of its bounds.
// OpenAI, gpt-oss model card 2025.
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->ffn_norm_name = "post_attention_norm";  // what the files call the norm before the experts
  model->glu.kind = op::Glu::Kind::swiglu_oai;
  model->experts.route.gating = op::MoeRoute::Gating::softmax_of_chosen;
  model->experts.route.normalise = false;
  model->mutable_info().ropes[0].yarn_rounding = false;
  const auto window = r.get_int("attention.sliding_window", 128, 0, INT32_MAX);
  for (int64_t layer = 0; layer < model->params.layers; layer += 2) {
    model->set_window(layer, static_cast<int32_t>(window));
  }
  return DecoderModel::finish(std::move(model), r);
}

}  // namespace

const ArchDef& gpt_oss_arch() {
  static constexpr const char* kNames[] = {"gpt-oss"};
  static const ArchDef def{kNames, create};
  return def;
}

}  // namespace infer
