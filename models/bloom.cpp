// BLOOM: biases by distance in place of positions, a LayerNorm on the embedding, LayerNorms and
// projections with biases, a feed-forward of GELU without a gate. BigScience 2022.
#include "engine/graph/alibi.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_qkv.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr const char* kGelu = "gelu_pytorch_tanh";

class Bloom final : public DecoderModel {
 public:
  explicit Bloom(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    params.eps = r.epsilon("attention.layer_norm_epsilon");
    layer_norms = true;
    embedding_norm_name = "token_embd_norm";
    set_alibi(kUsualAlibi);
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return gelu_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)],
                      op::Gelu::Kind::tanh);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Bloom>(r), r);
}

void map(CheckpointMap& m) {
  for (const auto& [name, own] : {std::pair{"num_hidden_layers", "n_layer"},
                                  {"num_attention_heads", "n_head"},
                                  {"hidden_size", "n_embed"},
                                  {"max_position_embeddings", "seq_length"}}) {
    if (m.config.has(own)) m.config.assume(name, m.config.need_int(own, 1, kMaxContext));
  }
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  m.config.assume("max_position_embeddings", int64_t{2048});
  m.config.assume("intermediate_size", 4 * width);
  m.config.assume("layer_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-5));
  m.config.assume("hidden_act", std::string(kGelu));
  m.config.assume("tie_word_embeddings", true);
  m.begin({.architecture = "bloom",
           .activation = kGelu,
           .layer_norms = true,
           .table = "word_embeddings.weight"});
  m.config.require(!m.config.get_bool("apply_residual_connection_post_layernorm", false),
                   "apply_residual_connection_post_layernorm");
  m.tensors.also_named("word_embeddings.", "embed_tokens.");
  m.tensors.also_named("ln_f.", "norm.");
  m.tensors.also_named("h.", "layers.");
  m.ends();
  for (const char* kind : {".weight", ".bias"}) {
    m.tensors.copy(std::string("word_embeddings_layernorm") + kind,
                   std::string("token_embd_norm") + kind);
  }
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attention.dense", "attn_output"},
            {"mlp.dense_h_to_4h", "ffn_up"},
            {"mlp.dense_4h_to_h", "ffn_down"}});
  map_grouped_qkv(m, "self_attention.query_key_value", width, m.head_count());
}

}  // namespace

const ArchDef& bloom_arch() {
  static constexpr const char* kNames[] = {"bloom"};
  static constexpr const char* kCheckpoints[] = {"BloomForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
