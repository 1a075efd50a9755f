// Falcon 7B, 11B, 40B and 180B: attention and feed-forward side by side on one LayerNorm, or each
// on its own; few key-value heads, half-split RoPE, GELU without a gate. Almazrouei et al. 2023.
// Falcon RW: one behind the other, with biases, and biases by distance in place of RoPE. Penedo et
// al. 2023.
#include "engine/graph/alibi.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_qkv.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class Falcon final : public DecoderModel {
 public:
  explicit Falcon(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    params.eps = r.epsilon("attention.layer_norm_epsilon");
    layer_norms = true;
    read_alibi(r, 0.0f, true);
    // They are added before scores are scaled.
    for (AttentionBlock& block : attention) block.alibi_factor = block.scale;
    if (r.source().find("blk.0.ffn_norm.weight") != nullptr) return;
    // With two norms, the one called "attn_norm" is that of the feed-forward.
    parallel_norms = r.source().find("blk.0.attn_norm_2.weight") != nullptr;
    parallel = !parallel_norms;
    if (!parallel_norms) return;
    attn_norm_name = "attn_norm_2";
    ffn_norm_name = "attn_norm";
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return gelu_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)]);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Falcon>(r), r);
}

void map(CheckpointMap& m) {
  const bool grouped = m.config.get_bool("new_decoder_architecture", false);
  const int64_t heads = m.config.need_int("num_attention_heads", 1, 4096);
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  const int64_t kv_heads = grouped ? m.config.get_int("num_kv_heads", heads, 1, 4096)
                           : m.config.get_bool("multi_query", true) ? 1
                                                                    : heads;
  m.config.replace("num_key_value_heads", kv_heads);
  m.config.assume("hidden_act", m.config.get_string("activation", "gelu"));
  m.config.assume("layer_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-5));
  m.config.assume("max_position_embeddings", int64_t{2048});
  m.config.assume("intermediate_size",
                  m.config.get_int("ffn_hidden_size", 4 * width, 1, 4 * kMaxWidth));
  m.config.assume("tie_word_embeddings", true);
  const std::string second = "h.0.post_attention_layernorm.weight";
  m.config.require(grouped || m.config.get_bool("parallel_attn", true) || m.tensors.has(second),
                   "parallel_attn false without post_attention_layernorm");
  m.config.require(width % heads == 0 && heads % kv_heads == 0, "these numbers of heads");
  m.begin({.architecture = "falcon",
           .activation = "gelu",
           .layer_norms = true,
           .table = "word_embeddings.weight"});
  if (m.config.get_bool("alibi", false)) {
    m.keys.set_float("attention.max_alibi_bias", kUsualAlibi);
  }
  m.tensors.also_named("word_embeddings.", "embed_tokens.");
  m.tensors.also_named("ln_f.", "norm.");
  m.tensors.also_named("h.", "layers.");
  m.ends();
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"ln_mlp", "attn_norm"},
            {"ln_attn", "attn_norm_2"},
            {"self_attention.dense", "attn_output"},
            {"mlp.dense_h_to_4h", "ffn_up"},
            {"mlp.dense_4h_to_h", "ffn_down"}});
  map_grouped_qkv(m, "self_attention.query_key_value", width, kv_heads);
}

}  // namespace

const ArchDef& falcon_arch() {
  static constexpr const char* kNames[] = {"falcon"};
  static constexpr const char* kCheckpoints[] = {"FalconForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
