// MPT: biases by distance in place of positions, LayerNorms without biases, in some models a limit
// on queries, keys and values or LayerNorms of these, a feed-forward of GELU without a gate.
// MosaicML 2023.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class Mpt final : public DecoderModel {
 public:
  explicit Mpt(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    params.eps = r.epsilon("attention.layer_norm_epsilon");
    layer_norms = true;
    read_alibi(r, 0.0f);
    read_clamp(r);
    if (r.source().find("position_embd.weight") != nullptr) add_positions(r);
    for (AttentionBlock& block : attention) {
      const auto has = [&](const char* part) {
        return weight_index(r.source(), block_name(block.layer, part)) >= 0;
      };
      block.eps = params.eps;
      if (has("attn_q_norm.weight")) block.qk_norm = AttentionBlock::QkNorm::whole_layer;
      if (!has("ffn_act.scales")) continue;
      r.set_error(error(StatusCode::unsupported,
                        "{}: tensor '{}': factors of activations, which AWQ may write, are not "
                        "supported",
                        r.metadata().source(), block_name(block.layer, "ffn_act.scales")));
    }
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return gelu_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)]);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Mpt>(r), r);
}

void map_attention(CheckpointMap& m) {
  const std::string section = "attn_config.";
  m.config.require(m.config.get_bool(section + "alibi", true), "alibi false");
  m.config.require(!m.config.get_bool(section + "prefix_lm", false), "prefix_lm");
  m.config.require(!m.config.has(section + "softmax_scale"), "softmax_scale");
  m.keys.set_float("attention.max_alibi_bias", m.config.get_float(section + "alibi_bias_max", 8.0));
  if (const double limit = m.config.get_float(section + "clip_qkv", 0.0); limit > 0) {
    m.keys.set_float("attention.clamp_kqv", limit);
  }
}

void map(CheckpointMap& m) {
  for (const auto& [name, own] : {std::pair{"num_hidden_layers", "n_layers"},
                                  {"num_attention_heads", "n_heads"},
                                  {"hidden_size", "d_model"},
                                  {"max_position_embeddings", "max_seq_len"},
                                  {"num_key_value_heads", "attn_config.kv_n_heads"}}) {
    if (m.config.has(own)) m.config.assume(name, m.config.need_int(own, 1, kMaxContext));
  }
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  m.config.require(m.config.get_float("expansion_ratio", 4.0) == 4, "this expansion_ratio");
  m.config.require(!m.config.has("logit_scale"), "logit_scale");
  m.config.assume("intermediate_size", 4 * width);
  m.config.assume("layer_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-5));
  m.config.assume("hidden_act", std::string("gelu"));
  m.config.assume("tie_word_embeddings", true);
  m.begin(
      {.architecture = "mpt", .activation = "gelu", .layer_norms = true, .table = "wte.weight"});
  map_attention(m);
  m.tensors.also_named("wte.", "embed_tokens.");
  m.tensors.also_named("norm_f.", "norm.");
  m.tensors.also_named("blocks.", "layers.");
  m.ends();
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.layers({{"norm_1", "attn_norm"},
            {"norm_2", "ffn_norm"},
            {"attn.Wqkv", "attn_qkv"},
            {"attn.q_ln", "attn_q_norm"},
            {"attn.k_ln", "attn_k_norm"},
            {"attn.out_proj", "attn_output"},
            {"ffn.up_proj", "ffn_up"},
            {"ffn.down_proj", "ffn_down"}});
}

}  // namespace

const ArchDef& mpt_arch() {
  static constexpr const char* kNames[] = {"mpt"};
  static constexpr const char* kCheckpoints[] = {"MptForCausalLM", "MPTForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
