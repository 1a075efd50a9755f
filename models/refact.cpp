// Refact: the plain decoder with biases by distance in place of RoPE, and one key-value head for
// all. Small Magellanic Cloud AI 2023.
#include "engine/graph/alibi.h"
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->set_alibi(kUsualAlibi);
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  for (const auto& [name, own] : {std::pair{"num_hidden_layers", "n_layer"},
                                  {"num_attention_heads", "n_head"},
                                  {"hidden_size", "n_embd"},
                                  {"max_position_embeddings", "n_positions"}}) {
    if (m.config.has(own)) m.config.assume(name, m.config.need_int(own, 1, kMaxContext));
  }
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  const int64_t inner = (8 * width / 3 + 255) / 256 * 256;
  m.config.assume("intermediate_size", inner);
  m.config.assume("num_key_value_heads", int64_t{1});
  m.config.assume("rms_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-5));
  m.config.assume("hidden_act", std::string("silu"));
  m.config.require(m.config.get_bool("multi_query", true), "multi_query false");
  m.begin({.architecture = "refact", .table = "wte.weight"});
  m.tensors.also_named("wte.", "embed_tokens.");
  m.tensors.also_named("ln_f.", "norm.");
  m.tensors.also_named("h.", "layers.");
  m.ends();
  m.layers({{"ln_1", "attn_norm"},
            {"ln_2", "ffn_norm"},
            {"attn.q", "attn_q"},
            {"attn.c_proj", "attn_output"},
            {"mlp.c_proj", "ffn_down"}});
  const int64_t head = width / m.head_count();
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const std::string at = layer_name(i, "");
    m.tensors.split_rows(at + "attn.kv.weight", {{block_name(i, "attn_k.weight"), head},
                                                 {block_name(i, "attn_v.weight"), head}});
    m.tensors.split_rows(at + "mlp.gate_up_proj.weight", {{block_name(i, "ffn_gate.weight"), inner},
                                                          {block_name(i, "ffn_up.weight"), inner}});
  }
}

}  // namespace

const ArchDef& refact_arch() {
  static constexpr const char* kNames[] = {"refact"};
  static constexpr const char* kCheckpoints[] = {"GPTRefactForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
