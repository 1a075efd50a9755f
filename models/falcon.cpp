// Falcon 7B, 11B, 40B and 180B: attention and feed-forward side by side on one LayerNorm, or each
// on its own; few key-value heads, half-split RoPE, GELU without a gate. Almazrouei et al. 2023.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr int64_t kMaxWidth = int64_t{1} << 20;

class Falcon final : public DecoderModel {
 public:
  explicit Falcon(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    params.eps = r.epsilon("attention.layer_norm_epsilon");
    layer_norms = true;
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

/// In checkpoints the rows are by key-value head: the query heads that share it, its keys and its
/// values.
void map_qkv(CheckpointMap& m, int64_t width, int64_t kv_heads) {
  const int64_t heads = m.head_count();
  const int64_t head = width / heads;
  const int64_t group = heads / kv_heads;
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const TensorView all = m.tensors.view(layer_name(i, "self_attention.query_key_value.weight"),
                                          {width, head, group + 2, kv_heads});
    if (!m.tensors.ok()) return;
    std::vector<TensorView> parts;
    const auto add = [&](int64_t first, int64_t count) {
      for (int64_t kv = 0; kv < kv_heads; ++kv) {
        const TensorView own = all.sliced(3, kv, 1);
        for (int64_t j = first; j < first + count; ++j) parts.push_back(own.sliced(2, j, 1));
      }
    };
    add(0, group);
    add(group, 1);
    add(group + 1, 1);
    m.tensors.put_parts(block_name(i, "attn_qkv") + ".weight", std::move(parts),
                        {width, (heads + 2 * kv_heads) * head});
  }
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
  for (const char* other : {"alibi", "bias"}) {
    m.config.require(!m.config.get_bool(other, false), other);
  }
  m.config.require(grouped || m.config.get_bool("parallel_attn", true), "parallel_attn false");
  m.config.require(width % heads == 0 && heads % kv_heads == 0, "these numbers of heads");
  m.begin({.architecture = "falcon",
           .activation = "gelu",
           .layer_norms = true,
           .table = "word_embeddings.weight"});
  m.tensors.also_named("word_embeddings.", "embed_tokens.");
  m.tensors.also_named("ln_f.", "norm.");
  m.tensors.also_named("h.", "layers.");
  m.ends();
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.layers({{"input_layernorm", "attn_norm"},
            {"ln_mlp", "attn_norm"},
            {"ln_attn", "attn_norm_2"},
            {"self_attention.dense", "attn_output"},
            {"mlp.dense_h_to_4h", "ffn_up"},
            {"mlp.dense_4h_to_h", "ffn_down"}});
  if (m.tensors.ok()) map_qkv(m, width, kv_heads);
}

}  // namespace

const ArchDef& falcon_arch() {
  static constexpr const char* kNames[] = {"falcon"};
  static constexpr const char* kCheckpoints[] = {"FalconForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
