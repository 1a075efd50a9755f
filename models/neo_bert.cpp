// NeoBERT (Le Breton et al. 2025): an encoder with RMSNorm before each block, interleaved RoPE and
// SwiGLU. The vector of a text is that of its first token.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class NeoBert final : public DecoderModel {
 public:
  explicit NeoBert(HparamReader& r) : DecoderModel(r, op::Rope::Style::interleaved) {
    output_norm_name = "enc.output_norm";
    mutable_info().causal = false;
    mutable_info().pooling = Pooling::cls;
    for (const AttentionBlock& block : attention) {
      if (block.kv_heads == block.heads && block.value_dim == block.head_dim) continue;
      r.set_error(error(StatusCode::bad_file,
                        "{}: expected {} key-value heads of {} elements, as queries have, found {} "
                        "of {}",
                        r.metadata().source(), block.heads, block.head_dim, block.kv_heads,
                        block.value_dim));
    }
  }

  /// The rows of "attn_qkv" are, for each head, those of its queries, keys and values, as in the
  /// model's own code. llama.cpp's converter leaves them so. llama.cpp itself takes them as all
  /// queries, all keys and all values, and makes other vectors of the same file.
  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const AttentionBlock& b = attention[static_cast<size_t>(layer)];
    const ValueId all = m.g.split_heads(
        m.linear(x, block_name(layer, "attn_qkv"), 3 * b.heads * b.head_dim), b.heads);
    const ValueId q = m.rope(m.g.slice(all, 0, b.head_dim), b.style);
    const ValueId k = m.rope(m.g.slice(all, b.head_dim, b.head_dim), b.style);
    const ValueId v = m.g.slice(all, 2 * b.head_dim, b.head_dim);
    const ValueId mixed = m.attention(q, k, v, {.kv_layer = b.cache, .scale = b.scale});
    return m.linear(mixed, block_name(layer, "attn_output"), params.embedding);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<NeoBert>(r);
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.config.assume("max_position_embeddings", m.config.get_int("max_length", 1024, 1, kMaxContext));
  m.config.assume("rms_norm_eps", m.config.get_float("norm_eps", 1e-6));
  m.begin({.architecture = "neo-bert", .table = "encoder.weight"});
  // A gated feed-forward of as many weights as a plain one of this width, in whole eights.
  const int64_t plain = m.config.need_int("intermediate_size", 1, kMaxWidth);
  m.keys.set_int("feed_forward_length", (2 * plain / 3 + 7) / 8 * 8);
  m.keys.set_bool("attention.causal", false);
  m.keys.set_int("pooling_type", static_cast<int64_t>(Pooling::cls));
  m.tensors.copy("encoder.weight", "token_embd.weight");
  m.tensors.copy("layer_norm.weight", "enc.output_norm.weight");
  m.tensors.also_named("transformer_encoder.", "layers.");
  m.layers({{"attention_norm", "attn_norm"},
            {"qkv", "attn_qkv"},
            {"wo", "attn_output"},
            {"ffn_norm", "ffn_norm"},
            {"ffn.w12", "ffn_up"},
            {"ffn.w3", "ffn_down"}});
  if (m.config.checkpoint() == "NeoBERTForSequenceClassification") {
    m.classifier({{"dense", "cls"}, {"classifier", "cls.output"}});
  }
  m.tensors.ignore_prefix("decoder.");  // of models that fill in masked words
}

}  // namespace

const ArchDef& neo_bert_arch() {
  static constexpr const char* kNames[] = {"neo-bert"};
  static constexpr const char* kCheckpoints[] = {"NeoBERT", "NeoBERTLMHead",
                                                 "NeoBERTForSequenceClassification"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
