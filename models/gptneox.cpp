// GPT-NeoX and Pythia: attention and feed-forward side by side, each on a LayerNorm of its own,
// half-split RoPE over a part of the head, biases everywhere, GELU without a gate. Black et al.
// 2022; Biderman et al. 2023.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_qkv.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class GptNeox final : public DecoderModel {
 public:
  explicit GptNeox(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    params.eps = r.epsilon("attention.layer_norm_epsilon");
    layer_norms = true;
    parallel_norms = r.get_bool("use_parallel_residual", true);
  }

  /// GELU is exact, as in Pythia. Files do not say that GPT-NeoX 20B had the approximation by tanh.
  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return gelu_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)]);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<GptNeox>(r), r);
}

void map(CheckpointMap& m) {
  m.config.assume("hidden_act", std::string("gelu"));
  m.config.assume("partial_rotary_factor", m.config.get_float("rotary_pct", 0.25));
  m.config.assume("rope_theta", m.config.get_float("rotary_emb_base", 10000.0));
  m.begin({.architecture = "gptneox",
           .activation = "gelu",
           .layer_norms = true,
           .table = "embed_in.weight"});
  m.keys.set_bool("use_parallel_residual", m.config.get_bool("use_parallel_residual", true));
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  m.tensors.also_named("embed_in.", "embed_tokens.");
  m.tensors.also_named("embed_out.", "lm_head.");
  m.tensors.also_named("final_layer_norm.", "norm.");
  m.ends();
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"attention.dense", "attn_output"},
            {"mlp.dense_h_to_4h", "ffn_up"},
            {"mlp.dense_4h_to_h", "ffn_down"}});
  map_grouped_qkv(m, "attention.query_key_value", width, m.head_count());
  for (int64_t i = 0; i < m.layer_count(); ++i) {  // older files store what the code computes
    for (const char* part : {"attention.bias", "attention.masked_bias"}) {
      m.tensors.ignore(layer_name(i, part));
    }
  }
}

}  // namespace

const ArchDef& gptneox_arch() {
  static constexpr const char* kNames[] = {"gptneox"};
  static constexpr const char* kCheckpoints[] = {"GPTNeoXForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
