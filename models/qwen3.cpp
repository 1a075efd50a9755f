// Qwen 3, its experts, and the text of the models that see: the plain decoder with half-split RoPE
// and an RMSNorm on every q and k head; in the expert models each feed-forward is a choice by
// softmax, the weights of the chosen ones summing to one. Yang et al. 2025.
#include "engine/core/ascii.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
  read_axes(r, model->mutable_info().ropes[0], true);
  model->mutable_info().image_layers = r.get_int("n_deepstack_layers", -1, 0, 1024);
  return DecoderModel::finish(std::move(model), r);
}

/// The rerankers are checkpoints like any other, which are asked whether a text fits: the score is
/// the share of "yes" against "no" in what they answer (Zhang et al. 2025). Their name tells them.
void map_reranker(CheckpointMap& m) {
  std::string name = checkpoint_name(m.config.source());
  for (char& c : name) c = ascii_lower(c);
  if (name.find("reranker") == std::string::npos) return;
  const int32_t yes = m.token("yes");
  const int32_t no = m.token("no");
  if (yes < 0 || no < 0) return;
  m.keys.set_int("pooling_type", static_cast<int64_t>(Pooling::rank));
  const std::string from =
      m.tensors.has("lm_head.weight") ? "lm_head.weight" : "embed_tokens.weight";
  m.tensors.put_rows("cls.output.weight", from, {yes, no});
  m.keys.set_whole("qwen3.classifier.output_labels", std::vector<std::string>{"yes", "no"});
  m.add_template(
      "rerank",
      "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query "
      "and "
      "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
      "<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that "
      "answer the query\n<Query>: {query}\n<Document>: {document}<|im_end|>\n"
      "<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

constexpr const char* kExperts = "mlp.experts";

/// Whether a layer's experts, of this width, lie transposed. Both forms are published.
bool lie_transposed(const CheckpointMap& m, int64_t layer, int64_t width) {
  const std::string in = layer_name(layer, kExperts) + ".";
  const int64_t inputs = m.tensors.shape_of(layer_name(layer, "mlp.gate.weight"))[0];
  return m.tensors.has(in + "gate_up_proj") &&
         (m.tensors.shape_of(in + "gate_up_proj")[0] != inputs ||
          m.tensors.shape_of(in + "down_proj")[0] != width);
}

void map(CheckpointMap& m) {
  const std::string& name = m.config.checkpoint();
  const bool sees = name.starts_with("Qwen3VL");
  const bool routed = name.starts_with(sees ? "Qwen3VLMoe" : "Qwen3Moe");
  m.begin({.architecture =
               sees ? (routed ? "qwen3vlmoe" : "qwen3vl") : (routed ? "qwen3moe" : "qwen3")});
  if (sees) map_axes(m);
  require_no_window(m);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"}});
  m.attention();
  m.feed_forward();
  if (m.config.checkpoint() == "Qwen3ForSequenceClassification") {
    m.classifier({{"score", "cls.output"}});
  }
  if (!routed) return map_reranker(m);
  const int64_t experts = map_expert_counts(m);
  m.config.require(m.config.get_bool("norm_topk_prob", sees), "norm_topk_prob false");
  const int64_t width = m.config.need_int("moe_intermediate_size", 1, kMaxWidth);
  m.keys.set_int("expert_feed_forward_length", width);
  m.layers({{"mlp.gate", "ffn_gate_inp"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    // mlp_only_layers have a feed-forward instead.
    if (!m.tensors.has(layer_name(i, "mlp.gate.weight"))) continue;
    if (sees && lie_transposed(m, i, width)) {
      add_transposed_experts(m.tensors, i, kExperts);
    } else {
      add_experts(m.tensors, i, kExperts, experts);
    }
  }
}

}  // namespace

const ArchDef& qwen3_arch() {
  static constexpr const char* kNames[] = {"qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe"};
  static constexpr const char* kCheckpoints[] = {"Qwen3ForCausalLM",
                                                 "Qwen3MoeForCausalLM",
                                                 "Qwen3Model",
                                                 "Qwen3ForSequenceClassification",
                                                 "Qwen3VLForConditionalGeneration",
                                                 "Qwen3VLMoeForConditionalGeneration"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
