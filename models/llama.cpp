// Llama 1 to 3.2, Mistral, Mixtral, TinyLlama, SmolLM2: the plain decoder with interleaved RoPE
// (Llama 3.1 divides its frequencies by "rope_freqs"), SwiGLU or experts chosen by softmax.
// Touvron et al. 2023; Dubey et al. 2024; Jiang et al. 2023 and 2024.
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  const auto window = r.get_int("attention.sliding_window", 0, 0, INT32_MAX);  // Mistral 7B v0.1
  for (int64_t layer = 0; layer < model->params.layers; ++layer) {
    model->set_window(layer, static_cast<int32_t>(window));
  }
  return DecoderModel::finish(std::move(model), r);
}

}  // namespace

const ArchDef& llama_arch() {
  static constexpr const char* kNames[] = {"llama"};
  static const ArchDef def{kNames, create};
  return def;
}

}  // namespace infer
