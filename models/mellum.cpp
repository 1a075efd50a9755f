// Mellum 2: an RMSNorm on every q and k head, a sliding window with a RoPE of its own in most
// layers, and experts chosen by softmax, the weights of the chosen ones summing to one. JetBrains
// 2026.
#include <algorithm>

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
  if (r.get_int("attention.sliding_window", 0, 0, INT32_MAX) > 0) {
    model->set_windows_with_own_rope(r, r.sliding_layers(model->params.layers, 4),
                                     model->mutable_info().ropes[0].base);
  }
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "mellum", .rope_base = 500000.0});
  if (m.config.has("layer_types")) {
    const std::vector<bool> sliding = map_sliding_layers(m, 0);
    if (std::ranges::find(sliding, true) != sliding.end()) {
      m.keys.set_int("attention.sliding_window",
                     m.config.get_int("sliding_window", 1024, 1, INT32_MAX));
      map_window_rope(m, m.config.get_int("head_dim", 128, 1, kMaxWidth));
    }
  }
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"},
            {"mlp.gate", "ffn_gate_inp"}});
  m.attention();
  m.feed_forward();
  const int64_t experts = map_expert_counts(m);
  m.config.require(m.config.get_bool("norm_topk_prob", true), "norm_topk_prob false");
  m.keys.set_int("expert_feed_forward_length",
                 m.config.get_int("moe_intermediate_size", 896, 1, kMaxWidth));
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    // mlp_layer_types says which have a feed-forward instead.
    if (m.tensors.has(layer_name(i, "mlp.gate.weight"))) {
      add_experts(m.tensors, i, "mlp.experts", experts);
    }
  }
  m.tensors.ignore_prefix("mtp.");  // what predicts further tokens is not used
}

}  // namespace

const ArchDef& mellum_arch() {
  static constexpr const char* kNames[] = {"mellum"};
  static constexpr const char* kCheckpoints[] = {"MellumForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
