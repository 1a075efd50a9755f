// StarCoder2: LayerNorms and projections with biases, half-split RoPE, a feed-forward of GELU
// without a gate, a window in every layer. Lozhkov et al. 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class Starcoder2 final : public DecoderModel {
 public:
  explicit Starcoder2(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    params.eps = r.epsilon("attention.layer_norm_epsilon");
    layer_norms = true;
    const auto window = r.get_int("attention.sliding_window", 0, 0, INT32_MAX);
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      set_window(layer, static_cast<int32_t>(window));
    }
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return gelu_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)],
                      op::Gelu::Kind::tanh);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<Starcoder2>(r);
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.config.assume("hidden_act", std::string("gelu_pytorch_tanh"));
  m.config.assume("tie_word_embeddings", true);
  m.begin({.architecture = "starcoder2", .activation = "gelu_pytorch_tanh", .layer_norms = true});
  m.keys.set_float("attention.layer_norm_epsilon", m.config.get_float("norm_epsilon", 1e-5));
  if (const int64_t window = window_of(m.config); window > 0)
    m.keys.set_int("attention.sliding_window", window);
  m.ends();
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"mlp.c_fc", "ffn_up"},
            {"mlp.c_proj", "ffn_down"}});
  m.attention();
}

}  // namespace

const ArchDef& starcoder2_arch() {
  static constexpr const char* kNames[] = {"starcoder2"};
  static constexpr const char* kCheckpoints[] = {"Starcoder2ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
