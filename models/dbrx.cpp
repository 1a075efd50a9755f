// DBRX: LayerNorms without biases, queries, keys and values that are held within a bound, and
// experts chosen by softmax, the weights of the chosen ones summing to one. Databricks 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->params.eps = r.epsilon("attention.layer_norm_epsilon");
  model->layer_norms = true;
  model->ffn_norm_name = "attn_output_norm";  // what the files call the norm before the experts
  model->read_clamp(r);
  return DecoderModel::finish(std::move(model), r);
}

/// A matrix of all experts lies in one, with a row for each inner element; so the last one is
/// transposed.
void map_experts(CheckpointMap& m, int64_t width, int64_t inner) {
  const int64_t experts = m.config.need_int("ffn_config.moe_num_experts", 1, 65536);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("ffn_config.moe_top_k", 1, experts));
  m.config.require(m.config.get_float("ffn_config.moe_normalize_expert_weights", 0.0) == 1,
                   "a moe_normalize_expert_weights other than 1");
  for (int64_t i = 0; i < m.layer_count() && m.tensors.ok(); ++i) {
    const auto part = [&](const char* name) {
      return m.tensors.view(layer_name(i, std::string("ffn.experts.mlp.") + name),
                            {width, inner, experts});
    };
    m.tensors.put(block_name(i, "ffn_gate_exps.weight"), part("w1"));
    m.tensors.put(block_name(i, "ffn_up_exps.weight"), part("v1"));
    m.tensors.put(block_name(i, "ffn_down_exps.weight"), part("w2").swapped(0, 1));
  }
}

void map(CheckpointMap& m) {
  for (const auto& [name, own] : {std::pair{"num_hidden_layers", "n_layers"},
                                  {"num_attention_heads", "n_heads"},
                                  {"hidden_size", "d_model"},
                                  {"max_position_embeddings", "max_seq_len"},
                                  {"num_key_value_heads", "attn_config.kv_n_heads"},
                                  {"intermediate_size", "ffn_config.ffn_hidden_size"}}) {
    if (m.config.has(own)) m.config.assume(name, m.config.need_int(own, 1, kMaxContext));
  }
  m.config.assume("rope_theta", m.config.get_float("attn_config.rope_theta", 10000.0));
  m.config.assume("hidden_act", m.config.get_string("ffn_config.ffn_act_fn.name", "silu"));
  m.begin({.architecture = "dbrx", .layer_norms = true, .table = "wte.weight"});
  m.keys.set_float("attention.layer_norm_epsilon", 1e-5);  // no key says it
  if (const double limit = m.config.get_float("attn_config.clip_qkv", 0.0); limit > 0) {
    m.keys.set_float("attention.clamp_kqv", limit);
  }
  m.tensors.also_named("wte.", "embed_tokens.");
  m.tensors.also_named("norm_f.", "norm.");
  m.tensors.also_named("blocks.", "layers.");
  m.ends();
  m.layers({{"norm_attn_norm.norm_1", "attn_norm"},
            {"norm_attn_norm.norm_2", "attn_output_norm"},
            {"norm_attn_norm.attn.Wqkv", "attn_qkv"},
            {"norm_attn_norm.attn.out_proj", "attn_output"},
            {"ffn.router.layer", "ffn_gate_inp"}});
  map_experts(m, m.config.need_int("hidden_size", 1, kMaxWidth),
              m.config.need_int("intermediate_size", 1, kMaxWidth));
}

}  // namespace

const ArchDef& dbrx_arch() {
  static constexpr const char* kNames[] = {"dbrx"};
  static constexpr const char* kCheckpoints[] = {"DbrxForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
