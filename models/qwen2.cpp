// Qwen 2 and 2.5, and the text of their models that see: the plain decoder with half-split RoPE and
// biases on q, k and v; in the expert models a softmax whose weights stay as they are, and a shared
// expert with a gate. Yang et al. 2024; Wang et al. 2024; Bai et al. 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

#include <algorithm>

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  read_axes(r, model->mutable_info().ropes[0], false);
  if (const DecoderParams& p = model->params; p.experts > 0) {
    // The first files name neither width.
    const int64_t whole = p.feed_forward.front();
    model->experts.route.normalise = false;
    model->experts.width = r.get_int("expert_feed_forward_length",
                                     whole / std::max<int64_t>(p.experts_used, 1), 1, kMaxWidth);
    model->experts.shared_width =
        r.get_int("expert_shared_feed_forward_length", whole, 1, kMaxWidth);
  }
  return DecoderModel::finish(std::move(model), r);
}

void map_experts(CheckpointMap& m) {
  const int64_t experts = map_expert_counts(m);
  m.config.require(!m.config.get_bool("norm_topk_prob", false), "norm_topk_prob");
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("moe_intermediate_size", 1, kMaxWidth));
  m.keys.set_int("expert_shared_feed_forward_length",
                 m.config.need_int("shared_expert_intermediate_size", 1, kMaxWidth));
  m.layers({{"mlp.gate", "ffn_gate_inp"},
            {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
            {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
            {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
            {"mlp.shared_expert.down_proj", "ffn_down_shexp"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    // mlp_only_layers have a feed-forward instead.
    if (m.tensors.has(layer_name(i, "mlp.gate.weight")))
      add_experts(m.tensors, i, "mlp.experts", experts);
  }
}

void map(CheckpointMap& m) {
  const bool routed = m.config.checkpoint() == "Qwen2MoeForCausalLM";
  const bool sees = m.config.checkpoint().find("VL") != std::string::npos;
  m.begin({.architecture = routed ? "qwen2moe" : sees ? "qwen2vl" : "qwen2"});
  if (sees) map_axes(m);
  require_no_window(m);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
  if (routed) map_experts(m);
}

}  // namespace

const ArchDef& qwen2_arch() {
  static constexpr const char* kNames[] = {"qwen2", "qwen2moe", "qwen2vl"};
  static constexpr const char* kCheckpoints[] = {
      "Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen2VLForConditionalGeneration",
      "Qwen2_5_VLForConditionalGeneration", "DotsOCRForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
