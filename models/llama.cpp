// Llama 1 to 3.2, Mistral, Mixtral, TinyLlama, SmolLM2, InternLM 3, XVERSE: the plain decoder with
// interleaved RoPE (Llama 3.1 divides its frequencies by "rope_freqs"), SwiGLU or experts chosen by
// softmax. "llama-embed" makes vectors: every token of a text sees all others.
// Touvron et al. 2023; Dubey et al. 2024; Jiang et al. 2023 and 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  const auto window = r.get_int("attention.sliding_window", 0, 0, INT32_MAX);  // Mistral 7B v0.1
  for (int64_t layer = 0; layer < model->params.layers; ++layer) {
    model->set_window(layer, static_cast<int32_t>(window));
  }
  if (r.architecture() == "llama-embed") model->mutable_info().causal = false;
  return DecoderModel::finish(std::move(model), r);
}

/// Llama in which every token of a text sees all others: of NVIDIA's embeddings and rerankers.
void map_bidirectional(CheckpointMap& m) {
  m.keys.set_bool("attention.causal", false);
  const std::string said = m.config.get_string("pooling", "avg");
  const auto pooling = pooling_named(said == "avg" ? "mean" : said);
  m.config.require(pooling == Pooling::mean || pooling == Pooling::cls || pooling == Pooling::last,
                   "this pooling");
  const auto number = static_cast<int64_t>(pooling.value_or(Pooling::mean));
  m.keys.set_int("pooling_type", number);
  if (m.config.checkpoint() != "LlamaBidirectionalForSequenceClassification") return;
  m.classifier({{"score", "cls.output"}});
  m.keys.set_int("classifier.pooling_type", number);
}

/// Mistral and Mixtral have windows; Mixtral's experts are called w1 (gate), w3 (up) and w2 (down).
void map(CheckpointMap& m) {
  // Pixtral 12B leaves out what is as in MistralConfig.
  if (m.config.checkpoint() == "MistralForCausalLM") {
    m.config.assume("num_attention_heads", int64_t{32});
  }
  if (m.config.checkpoint() == "LlamaForCausalLM" && m.config.prefix() != "hf.config.") {
    // LLaVA 1.5 leaves out what is as in LlamaConfig.
    for (const auto& [key, value] : {std::pair{"hidden_size", 4096},
                                     {"intermediate_size", 11008},
                                     {"num_hidden_layers", 32},
                                     {"num_attention_heads", 32}}) {
      m.config.assume(key, int64_t{value});
    }
  }
  const bool bidirectional = m.config.checkpoint().starts_with("LlamaBidirectional");
  const bool xverse = m.config.checkpoint() == "XverseForCausalLM";
  m.begin({.architecture = bidirectional ? "llama-embed"
                           : xverse      ? "xverse"
                                         : "llama",
           .rope_base = m.config.checkpoint() == "MixtralForCausalLM" ? 1e6 : 10000.0});
  // transformers ignores this key for Llama. Others may not.
  m.config.require(m.config.get_float(rope_section(m.config) + "partial_rotary_factor",
                                      m.config.get_float("partial_rotary_factor", 1.0)) == 1,
                   "partial_rotary_factor");
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
  if (bidirectional) return map_bidirectional(m);
  if (m.config.checkpoint() == "LlamaForCausalLM" || xverse) return;
  if (const int64_t window = window_of(m.config); window > 0)
    m.keys.set_int("attention.sliding_window", window);
  const int64_t experts = m.config.get_int("num_local_experts", 0, 0, 65536);
  if (experts == 0) return;
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  m.layers({{"block_sparse_moe.gate", "ffn_gate_inp"}, {"mlp.gate", "ffn_gate_inp"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const bool merged = m.tensors.has(layer_name(i, "mlp.experts.gate_up_proj"));
    add_experts(m.tensors, i, merged ? "mlp.experts" : "block_sparse_moe.experts", experts,
                {"w1", "w3", "w2"});
  }
}

}  // namespace

const ArchDef& llama_arch() {
  static constexpr const char* kNames[] = {"llama", "llama-embed", "xverse"};
  static constexpr const char* kCheckpoints[] = {"LlamaForCausalLM",
                                                 "MistralForCausalLM",
                                                 "MixtralForCausalLM",
                                                 "InternLM3ForCausalLM",
                                                 "XverseForCausalLM",
                                                 "LlamaBidirectionalModel",
                                                 "LlamaBidirectionalForSequenceClassification"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
