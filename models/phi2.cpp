// Phi-1, 1.5 and 2: attention and feed-forward side by side on one LayerNorm, half-split RoPE over
// a part of the head, biases everywhere, GELU without a gate. Li et al. 2023.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class Phi2 final : public DecoderModel {
 public:
  explicit Phi2(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    params.eps = r.epsilon("attention.layer_norm_epsilon");
    layer_norms = true;
    parallel = true;
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return gelu_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)],
                      op::Gelu::Kind::tanh);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Phi2>(r), r);
}

void map(CheckpointMap& m) {
  m.config.assume("hidden_act", std::string("gelu_new"));
  m.config.assume("partial_rotary_factor", 0.5);
  m.begin({.architecture = "phi2", .activation = "gelu_new", .layer_norms = true});
  m.config.require(!m.config.get_bool("qk_layernorm", false), "qk_layernorm");
  m.tensors.also_named("final_layernorm.", "norm.");
  m.ends();
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.layers({{"input_layernorm", "attn_norm"},
            {"self_attn.dense", "attn_output"},
            {"mlp.fc1", "ffn_up"},
            {"mlp.fc2", "ffn_down"}});
  m.attention();
}

}  // namespace

const ArchDef& phi2_arch() {
  static constexpr const char* kNames[] = {"phi2"};
  static constexpr const char* kCheckpoints[] = {"PhiForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
