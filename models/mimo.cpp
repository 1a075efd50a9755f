// MiMo-7B: the plain decoder with half-split RoPE and biases on q, k and v, and a layer that
// predicts the token after the next one. Xiaomi LLM-Core Team 2025. The files have a name of their
// own, since that layer joins the hidden state and the token in another order than those of other
// families.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> read(HparamReader r) {
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->mutable_info().takes_unnormed = model->is_head();
  model->head_hidden_first = true;
  return DecoderModel::finish(std::move(model), r);
}

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  return read(HparamReader(source));
}

Result<std::unique_ptr<Model>> create_head(const WeightSource& source, int64_t which) {
  return read(HparamReader(source, HparamReader::Part::head, which));
}

/// The layers that predict further tokens, each as one more layer.
void map_heads(CheckpointMap& m) {
  for (int64_t i = 0; i < kMostNextLayers; ++i) {
    const std::string from = fmt::format("mtp_layers.{}.", i);
    if (!m.tensors.has(from + "input_proj.weight")) break;
    const int64_t layer = m.layer_count();
    m.add_head_layer();
    m.tensors.also_named(from, layer_name(layer, ""));
    for (const auto& [part, to] : {std::pair{"input_proj", "eh_proj"},
                                   {"token_layernorm", "enorm"},
                                   {"hidden_layernorm", "hnorm"},
                                   {"final_layernorm", "shared_head_norm"}}) {
      m.tensors.copy(layer_name(layer, std::string(part) + ".weight"),
                     block_name(layer, "nextn.") + to + ".weight");
    }
  }
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "mimo"});
  require_no_window(m);
  map_heads(m);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& mimo_arch() {
  static constexpr const char* kNames[] = {"mimo"};
  static constexpr const char* kCheckpoints[] = {"MiMoForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map, create_head};
  return def;
}

}  // namespace infer
