// Qwen3-Next and Qwen 3.5: three of four layers are gated delta nets, the others attention with a
// gate on what every head makes, an RMSNorm on every q and k head, and RoPE on a part of the head.
// Of the expert models every feed-forward is a choice by softmax, with a shared expert under a
// gate. Text alone: the coordinates of its positions are all the same, so M-RoPE is plain. Qwen
// Team 2025, 2026.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"
#include "engine/model/delta_net.h"

namespace infer {
namespace {

class Qwen35 final : public DecoderModel {
 public:
  explicit Qwen35(HparamReader& r)
      : DecoderModel(r, op::Rope::Style::half_split), net_(r, params.eps) {
    ffn_norm_name = "post_attention_norm";
    net_.grouped = r.architecture() == "qwen3next";
    read_axes(r, info_.ropes[0], true);
    // A draft head has attention.
    std::vector<bool> recurrent =
        recurrent_layers(r, is_head() ? params.first_layer - r.head() : params.layers);
    recurrent.resize(static_cast<size_t>(params.layers), false);
    drop_attention(recurrent);
    for (int64_t layer = params.first_layer; layer < params.layers; ++layer) {
      AttentionBlock& block = attention[static_cast<size_t>(layer)];
      block.qk_norm = AttentionBlock::QkNorm::per_head;
      block.gate = AttentionBlock::Gate::with_queries;
      if (!attends(layer)) add_state(layer, net_.state());
    }
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    if (attends(layer)) return DecoderModel::attend(m, x, layer);
    return delta_net_block(m, x, layer, net_, states[static_cast<size_t>(layer)]);
  }

 private:
  DeltaNet net_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Qwen35>(r), r);
}

Result<std::unique_ptr<Model>> create_head(const WeightSource& source, int64_t which) {
  HparamReader r(source, HparamReader::Part::head, which);
  return DecoderModel::finish(std::make_unique<Qwen35>(r), r);
}

/// The layer that predicts further tokens, as one more layer.
void map_head(CheckpointMap& m) {
  const int64_t layer = m.layer_count();
  m.add_head_layer();
  m.tensors.also_named("mtp.layers.0.", layer_name(layer, ""));
  const auto copy = [&](const char* from, const char* to, Change change) {
    m.tensors.copy(std::string("mtp.") + from + ".weight",
                   block_name(layer, "nextn.") + to + ".weight", change);
  };
  copy("fc", "eh_proj", Change::none);
  copy("pre_fc_norm_embedding", "enorm", Change::add_one);
  copy("pre_fc_norm_hidden", "hnorm", Change::add_one);
  copy("norm", "shared_head_norm", Change::add_one);
}

void map(CheckpointMap& m) {
  const std::string& name = m.config.checkpoint();
  const bool next = name == "Qwen3NextForCausalLM";
  const bool routed = next || name.starts_with("Qwen3_5Moe");
  if (routed)
    m.config.assume("intermediate_size",
                    int64_t{0} + m.config.need_int("moe_intermediate_size", 1, kMaxWidth));
  m.config.assume("partial_rotary_factor", 0.25);
  m.begin({.architecture = next ? "qwen3next" : routed ? "qwen35moe" : "qwen35"});
  m.ends(Change::add_one);
  const int64_t layers = m.layer_count();
  const char* const feed_forward = routed ? "gate" : "gate_proj";
  if (m.tensors.has("mtp.fc.weight") &&
      m.tensors.has(fmt::format("mtp.layers.0.mlp.{}.weight", feed_forward))) {
    map_head(m);
  }
  m.layers({{"input_layernorm", "attn_norm", Change::add_one},
            {"post_attention_layernorm", "post_attention_norm", Change::add_one},
            {"self_attn.q_norm", "attn_q_norm", Change::add_one},
            {"self_attn.k_norm", "attn_k_norm", Change::add_one}});
  m.attention();
  map_delta_nets(m, !next, layers);
  if (!next) {
    map_axes(m);
  }
  routed ? map_gated_experts(m) : m.feed_forward();
  m.tensors.ignore_prefix("mtp.");
}

}  // namespace

const ArchDef& qwen35_arch() {
  static constexpr const char* kNames[] = {"qwen35", "qwen35moe", "qwen3next"};
  static constexpr const char* kCheckpoints[] = {
      "Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM", "Qwen3_5MoeForConditionalGeneration",
      "Qwen3_5MoeForCausalLM", "Qwen3NextForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map, create_head};
  return def;
}

}  // namespace infer
