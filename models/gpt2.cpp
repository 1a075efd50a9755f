// GPT-2: learned positions, LayerNorms and projections with biases, a feed-forward of GELU without
// a gate. Radford et al. 2019. StarCoder is the same with one key-value head for all. Li et al.
// 2023.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"
#include "engine/model/turned_matrices.h"

namespace infer {
namespace {

class Gpt2 final : public DecoderModel {
 public:
  explicit Gpt2(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    params.eps = r.epsilon("attention.layer_norm_epsilon");
    layer_norms = true;
    info_.ropes.clear();
    for (AttentionBlock& block : attention) block.rotate = false;
    add_positions(r);
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return gelu_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)],
                      op::Gelu::Kind::tanh);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Gpt2>(r), r);
}

void map(CheckpointMap& m) {
  for (const auto& [name, own] : {std::pair{"num_hidden_layers", "n_layer"},
                                  {"num_attention_heads", "n_head"},
                                  {"hidden_size", "n_embd"},
                                  {"max_position_embeddings", "n_positions"}}) {
    if (m.config.has(own)) m.config.assume(name, m.config.need_int(own, 1, kMaxWidth));
  }
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  const int64_t inner = m.config.get_int("n_inner", 4 * width, 1, kMaxWidth);
  m.config.assume("intermediate_size", inner);
  m.config.assume("layer_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-5));
  const bool starcoder = m.config.checkpoint() == "GPTBigCodeForCausalLM";
  // Both are the approximation by tanh.
  const char* const gelu = starcoder ? "gelu_pytorch_tanh" : "gelu_new";
  m.config.assume("hidden_act", m.config.get_string("activation_function", gelu));
  m.config.assume("tie_word_embeddings", true);
  if (starcoder) {
    m.config.require(m.config.get_bool("multi_query", true), "multi_query false");
    m.config.assume("num_key_value_heads", int64_t{1});
  }
  m.begin({.architecture = starcoder ? "starcoder" : "gpt2",
           .activation = gelu,
           .layer_norms = true,
           .table = "wte.weight"});
  m.config.require(m.config.get_bool("scale_attn_weights", true), "scale_attn_weights false");
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    m.config.require(!m.config.get_bool(key, false), key);
  }
  m.tensors.also_named("wte.", "embed_tokens.");
  m.tensors.also_named("ln_f.", "norm.");
  m.tensors.also_named("h.", "layers.");
  m.ends();
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.tensors.copy("wpe.weight", "position_embd.weight");
  m.layers({{"ln_1", "attn_norm"}, {"ln_2", "ffn_norm"}});
  const TurnedMatrix matrices[] = {{"attn.c_attn", "attn_qkv", width, 3 * width},
                                   {"attn.c_proj", "attn_output", width, width},
                                   {"mlp.c_fc", "ffn_up", width, inner},
                                   {"mlp.c_proj", "ffn_down", inner, width}};
  if (!starcoder) return map_turned(m, matrices);
  m.layers({{"attn.c_attn", "attn_qkv"},
            {"attn.c_proj", "attn_output"},
            {"mlp.c_fc", "ffn_up"},
            {"mlp.c_proj", "ffn_down"}});
}

}  // namespace

const ArchDef& gpt2_arch() {
  static constexpr const char* kNames[] = {"gpt2", "starcoder"};
  static constexpr const char* kCheckpoints[] = {"GPT2LMHeadModel", "GPTBigCodeForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
