// ERNIE 4.5 and its experts: the plain decoder with interleaved RoPE; experts are chosen by softmax
// with a bias on the choice, beside one that every token takes. Baidu-ERNIE-Team 2025. The text of
// PaddleOCR-VL has half-split RoPE, whose pairs have axes. Cui et al. 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr const char* kPaddle = "PaddleOCRVLForConditionalGeneration";

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  const bool sees = r.architecture() == "paddleocr";
  auto model = std::make_unique<DecoderModel>(
      r, sees ? op::Rope::Style::half_split : op::Rope::Style::interleaved);
  if (sees) read_axes(r, model->mutable_info().ropes[0], false);
  model->experts.route = read_route(r, model->params, 1, true);
  return DecoderModel::finish(std::move(model), r);
}

/// Checkpoints may have queries, keys and values in one matrix, and a gate with what it multiplies,
/// each with one bias.
void split(CheckpointMap& m) {
  const int64_t heads = m.head_count();
  const int64_t kv_heads = m.config.get_int("num_key_value_heads", heads, 1, 4096);
  const int64_t width = m.config.need_int("hidden_size", 1, kMaxWidth);
  const int64_t head = m.config.get_int("head_dim", width / heads, 1, kMaxWidth);
  const int64_t inner = m.config.need_int("intermediate_size", 1, kMaxWidth);
  const int64_t shared = m.config.get_int("moe_num_shared_experts", 0, 0, 1024) *
                         m.config.get_int("moe_intermediate_size", 0, 0, kMaxWidth);
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    for (const std::string kind : {".weight", ".bias"}) {
      const auto name = [&](const char* part) { return block_name(i, part) + kind; };
      m.tensors.split_rows(layer_name(i, "self_attn.qkv_proj") + kind,
                           {{name("attn_q"), heads * head},
                            {name("attn_k"), kv_heads * head},
                            {name("attn_v"), kv_heads * head}});
      m.tensors.split_rows(layer_name(i, "mlp.up_gate_proj") + kind,
                           {{name("ffn_gate"), inner}, {name("ffn_up"), inner}});
      m.tensors.split_rows(layer_name(i, "mlp.shared_experts.up_gate_proj") + kind,
                           {{name("ffn_gate_shexp"), shared}, {name("ffn_up_shexp"), shared}});
    }
  }
}

void map_experts(CheckpointMap& m) {
  const int64_t experts = m.config.need_int("moe_num_experts", 1, 65536);
  const int64_t width = m.config.need_int("moe_intermediate_size", 1, kMaxWidth);
  const int64_t shared = m.config.get_int("moe_num_shared_experts", 0, 0, 1024);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("moe_k", 1, experts));
  m.keys.set_int("expert_feed_forward_length", width);
  m.keys.set_int("expert_shared_count", shared);
  if (shared > 0) m.keys.set_int("expert_shared_feed_forward_length", shared * width);
  m.keys.set_int("interleave_moe_layer_step",
                 m.config.get_int("moe_layer_interval", 1, 1, m.layer_count()));
  m.keys.set_int("leading_dense_block_count",
                 m.config.get_int("moe_layer_start_index", 0, 0, m.layer_count()));
  m.layers({{"mlp.gate", "ffn_gate_inp"},
            {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
            {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
            {"mlp.shared_experts.down_proj", "ffn_down_shexp"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    if (!m.tensors.has(layer_name(i, "mlp.gate.weight"))) continue;
    const std::string bias = layer_name(i, "mlp.moe_statics.e_score_correction_bias");
    if (m.tensors.has(bias)) {
      m.tensors.put(block_name(i, "exp_probs_b.bias"), m.tensors.view(bias, {experts}));
    }
    add_experts(m.tensors, i, "mlp.experts", experts, {.both = "up_gate_proj"});
  }
}

void map(CheckpointMap& m) {
  const bool routed = m.config.checkpoint() == "Ernie4_5_MoeForCausalLM";
  const bool sees = m.config.checkpoint() == kPaddle;
  if (!sees) m.config.assume("tie_word_embeddings", true);
  m.begin({.architecture = sees     ? "paddleocr"
                           : routed ? "ernie4_5-moe"
                                    : "ernie4_5",
           .rope_base = 500000.0});
  if (sees) map_axes(m, {16, 24, 24});
  m.config.require(m.config.get_float("moe_norm_min", 0.0) <= 1e-6, "this moe_norm_min");
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
  split(m);
  if (routed) map_experts(m);
  m.tensors.ignore_prefix("mtp_");  // layers that predict further tokens
}

}  // namespace

const ArchDef& ernie4_5_arch() {
  static constexpr const char* kNames[] = {"ernie4_5", "ernie4_5-moe", "paddleocr"};
  static constexpr const char* kCheckpoints[] = {"Ernie4_5ForCausalLM", "Ernie4_5_MoeForCausalLM",
                                                 kPaddle};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
