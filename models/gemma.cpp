// Gemma 1 and CodeGemma: embeddings scaled by √width, wide heads, GELU. Gemma Team 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

#include <cmath>

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->embedding_scale = std::sqrt(static_cast<float>(model->params.embedding));
  model->glu.kind = op::Glu::Kind::gelu_tanh;
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  // "gelu" in the first configurations meant the approximation too; what was computed is that of
  // hidden_activation, which is null or names it.
  m.config.assume("hidden_activation", std::string("gelu_pytorch_tanh"));
  m.begin({.architecture = "gemma", .activation = "gelu_pytorch_tanh"});
  m.ends(Change::add_one);
  m.layers({{"input_layernorm", "attn_norm", Change::add_one},
            {"post_attention_layernorm", "ffn_norm", Change::add_one}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& gemma_arch() {
  static constexpr const char* kNames[] = {"gemma"};
  static constexpr const char* kCheckpoints[] = {"GemmaForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
