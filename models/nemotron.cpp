// Nemotron-4 and Minitron: LayerNorms with biases, half-split RoPE over a part of the head, a
// feed-forward without a gate and a squared ReLU. Parmar et al. 2024. Jais 2 is the same with
// biases everywhere and RoPE over all of the head. Inception and MBZUAI 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class Nemotron final : public DecoderModel {
 public:
  explicit Nemotron(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    params.eps = r.epsilon("attention.layer_norm_epsilon");
    layer_norms = true;
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return squared_relu_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)]);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Nemotron>(r), r);
}

void map_jais2(CheckpointMap& m) {
  m.config.assume("hidden_act", std::string("relu2"));
  m.begin({.architecture = "jais2", .activation = "relu2", .layer_norms = true});
  m.ends();
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
}

void map(CheckpointMap& m) {
  if (m.config.checkpoint() == "Jais2ForCausalLM") return map_jais2(m);
  m.config.assume("hidden_act", std::string("relu2"));
  m.config.assume("partial_rotary_factor", 0.5);
  m.config.assume("layer_norm_eps", m.config.get_float("norm_eps", 1e-5));
  m.begin({.architecture = "nemotron", .activation = "relu2", .layer_norms = true});
  m.ends(Change::add_one);
  m.tensors.copy("norm.bias", "output_norm.bias");
  for (const auto& [from, to] :
       {std::pair{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}}) {
    for (int64_t i = 0; i < m.layer_count(); ++i) {
      const std::string name = layer_name(i, from);
      m.tensors.copy(name + ".weight", block_name(i, to) + ".weight", Change::add_one);
      m.tensors.copy(name + ".bias", block_name(i, to) + ".bias");
    }
  }
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& nemotron_arch() {
  static constexpr const char* kNames[] = {"nemotron", "jais2"};
  static constexpr const char* kCheckpoints[] = {"NemotronForCausalLM", "Jais2ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
