// EXAONE 4: norms after each part in place of before, an RMSNorm on every q and k head, half-split
// RoPE. In the large one three of four layers have a sliding window, and the fourth has no RoPE. LG
// AI Research 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr int64_t kPeriod = 4;  // of the layers that see everything

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->pre_norms = false;
  model->post_norms = true;
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
  if (r.get_int("attention.sliding_window", 0, 0, INT32_MAX) > 0) {
    model->set_windows_with_rope(r, kPeriod);
  }
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "exaone4"});
  if (const int64_t window = window_of(m.config); window > 0) {
    m.keys.set_int("attention.sliding_window", window);
    if (m.config.has("layer_types")) {
      map_sliding_layers(m, kPeriod);
    } else {
      // A number is the period.
      const MetaValue* const pattern =
          m.config.values().find(m.config.prefix() + "sliding_window_pattern");
      const auto* const period = pattern == nullptr ? nullptr : std::get_if<int64_t>(pattern);
      m.config.require(period != nullptr
                           ? *period == kPeriod
                           : m.config.get_string("sliding_window_pattern", "LLLG") == "LLLG",
                       "this sliding_window_pattern");
    }
  }
  m.ends();
  m.layers({{"post_attention_layernorm", "post_attention_norm"},
            {"post_feedforward_layernorm", "post_ffw_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"}});
  m.attention();
  m.feed_forward();
  m.tensors.ignore_prefix("mtp.");  // EXAONE 4.5's layers that predict further tokens
}

}  // namespace

const ArchDef& exaone4_arch() {
  static constexpr const char* kNames[] = {"exaone4"};
  static constexpr const char* kCheckpoints[] = {"Exaone4ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
