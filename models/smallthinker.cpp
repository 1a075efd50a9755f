// SmallThinker: experts of ReLU with a gate, which a router chooses by what enters the layer; in
// larger models a window in all but every fourth layer, the first of which has neither window nor
// RoPE. Song et al. 2025.
#include <algorithm>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr int64_t kPeriod = 4;

class SmallThinker final : public DecoderModel {
 public:
  explicit SmallThinker(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    glu.kind = op::Glu::Kind::relu;
    experts.route = read_route(r, params, 2, true);
    if (r.get_int("attention.sliding_window", 0, 0, INT32_MAX) == 0) return;
    std::vector<bool> sliding;
    for (AttentionBlock& block : attention) {
      block.rotate = block.layer % kPeriod != 0;
      sliding.push_back(block.rotate);
    }
    set_windows_with_own_rope(r, sliding, info_.ropes[0].base);
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const ValueId logits =
        m.linear(m.layer_input, block_name(layer, "ffn_gate_inp"), experts.experts);
    return routed_experts(m, x, logits, layer, experts, glu);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<SmallThinker>(r), r);
}

/// Which layers have a window and RoPE has to be what files say by the window alone.
void map_windows(CheckpointMap& m) {
  const std::vector<int64_t> windows = m.config.get_ints("sliding_window_layout");
  const std::vector<int64_t> ropes = m.config.get_ints("rope_layout");
  const bool slides = std::ranges::any_of(windows, [](int64_t flag) { return flag != 0; });
  for (const std::vector<int64_t>* layout : {&windows, &ropes}) {
    if (layout->empty()) continue;
    bool same = std::ssize(*layout) == m.layer_count();
    for (int64_t i = 0; same && i < m.layer_count(); ++i) {
      const bool flag = slides ? i % kPeriod != 0 : layout == &ropes;
      same = ((*layout)[static_cast<size_t>(i)] != 0) == flag;
    }
    m.config.require(same, "this sliding_window_layout or rope_layout");
  }
  m.config.require(!slides || !ropes.empty(), "no rope_layout");
  if (slides) {
    m.keys.set_int("attention.sliding_window",
                   m.config.need_int("sliding_window_size", 1, INT32_MAX));
  }
}

void map(CheckpointMap& m) {
  const int64_t width = m.config.need_int("moe_ffn_hidden_size", 1, kMaxWidth);
  m.config.assume("intermediate_size", width);
  m.config.assume("hidden_act", std::string("relu"));
  m.begin({.architecture = "smallthinker", .activation = "relu"});
  map_windows(m);
  m.config.require(m.config.get_bool("moe_enable_early_router", true),
                   "moe_enable_early_router false");
  m.config.require(!m.config.get_bool("moe_enable_secondary_experts", false),
                   "moe_enable_secondary_experts");
  const std::vector<int64_t> layout = m.config.get_ints("moe_layer_layout");
  m.config.require(std::ranges::all_of(layout, [](int64_t flag) { return flag != 0; }),
                   "layers without experts");
  const int64_t experts = m.config.need_int("moe_num_primary_experts", 1, 65536);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count",
                 m.config.need_int("moe_num_active_primary_experts", 1, experts));
  m.keys.set_int("expert_feed_forward_length", width);
  m.keys.set_int("expert_gating_func",
                 m.config.get_bool("moe_primary_router_apply_softmax", false) ? 1 : 2);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"block_sparse_moe.primary_router", "ffn_gate_inp"}});
  m.attention();
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    add_experts(m.tensors, i, "block_sparse_moe.experts", experts, {"gate", "up", "down"});
  }
}

}  // namespace

const ArchDef& smallthinker_arch() {
  static constexpr const char* kNames[] = {"smallthinker"};
  static constexpr const char* kCheckpoints[] = {"SmallThinkerForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
