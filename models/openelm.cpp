// OpenELM: layers of different numbers of heads and widths, an RMSNorm on every q and k head,
// half-split RoPE. Mehta et al. 2024.
#include <algorithm>

#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
  return DecoderModel::finish(std::move(model), r);
}

/// The widths of feed-forwards are told by their tensors: configurations have factors that these
/// are computed from.
std::vector<int64_t> widths(CheckpointMap& m, int64_t layers) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < layers; ++i) {
    all.push_back(
        std::max<int64_t>(1, m.tensors.shape_of(layer_name(i, "ffn.proj_1.weight"))[1] / 2));
  }
  return all;
}

void map(CheckpointMap& m) {
  const int64_t layers = m.config.need_int("num_transformer_layers", 1, 1024);
  const std::vector<int64_t> heads = m.config.get_ints("num_query_heads");
  const std::vector<int64_t> keys = m.config.get_ints("num_kv_heads");
  m.config.require(std::ssize(heads) == layers && std::ssize(keys) == layers,
                   "these num_query_heads and num_kv_heads");
  if (!m.tensors.ok()) return;
  const std::vector<int64_t> inner = widths(m, layers);
  m.config.assume("num_hidden_layers", layers);
  m.config.assume("hidden_size", m.config.need_int("model_dim", 1, kMaxWidth));
  m.config.assume("num_attention_heads", heads.front());
  m.config.assume("num_key_value_heads", keys.front());
  m.config.assume("intermediate_size", inner.front());
  m.config.assume("max_position_embeddings",
                  m.config.get_int("max_context_length", 2048, 1, kMaxContext));
  m.config.assume("rope_theta", m.config.get_float("rope_freq_constant", 10000.0));
  m.config.assume("hidden_act", m.config.get_string("activation_fn_name", "swish"));
  m.config.assume("rms_norm_eps", 1e-6);
  m.config.assume("tie_word_embeddings", true);
  m.begin({.architecture = "openelm", .table = "token_embeddings.weight"});
  for (const char* key :
       {"normalize_qk_projections", "ffn_with_glu", "share_input_output_layers"}) {
    m.config.require(m.config.get_bool(key, true), key + std::string(" false"));
  }
  m.config.require(m.config.get_string("normalization_layer_name", "rms_norm") == "rms_norm",
                   "this normalization_layer_name");
  m.keys.set_ints("attention.head_count", heads);
  m.keys.set_ints("attention.head_count_kv", keys);
  m.keys.set_ints("feed_forward_length", inner);
  m.tensors.also_named("token_embeddings.", "embed_tokens.");
  m.ends();
  m.layers({{"attn_norm", "attn_norm"},
            {"ffn_norm", "ffn_norm"},
            {"attn.qkv_proj", "attn_qkv"},
            {"attn.q_norm", "attn_q_norm"},
            {"attn.k_norm", "attn_k_norm"},
            {"attn.out_proj", "attn_output"},
            {"ffn.proj_2", "ffn_down"}});
  for (int64_t i = 0; i < layers && m.tensors.ok(); ++i) {
    m.tensors.split_rows(layer_name(i, "ffn.proj_1.weight"), block_name(i, "ffn_gate.weight"),
                         block_name(i, "ffn_up.weight"));
  }
}

}  // namespace

const ArchDef& openelm_arch() {
  static constexpr const char* kNames[] = {"openelm"};
  static constexpr const char* kCheckpoints[] = {"OpenELMForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
