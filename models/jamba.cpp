// Jamba: most layers are the mixer of Mamba, with norms of its steps and of what is written and
// read; every few layers have attention without positions, every few have experts, whose weights
// are not normalised. AI21 Labs 2024.
#include <algorithm>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"
#include "engine/model/mamba.h"

namespace infer {
namespace {

class Jamba final : public DecoderModel {
 public:
  explicit Jamba(HparamReader& r)
      : DecoderModel(r, op::Rope::Style::half_split, true, false), mamba_(r, params.eps) {
    experts.route.normalise = false;
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      if (!attends(layer)) add_state(layer, mamba_.state_elements());
    }
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    if (attends(layer)) return DecoderModel::attend(m, x, layer);
    return mamba_block(m, x, layer, mamba_, states[static_cast<size_t>(layer)]);
  }

 private:
  MambaBlock mamba_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Jamba>(r), r);
}

/// Whether a layer is one of those that come every so many layers.
class Every {
 public:
  Every(CheckpointMap& m, const std::string& what, int64_t period, int64_t offset)
      : period_(m.config.get_int(what + "_layer_period", period, 1, 1 << 20)),
        offset_(m.config.get_int(what + "_layer_offset", offset, 0, 1 << 20)) {
    m.config.require(offset_ < period_, "this " + what + "_layer_offset");
  }
  bool operator()(int64_t layer) const { return layer % period_ == offset_; }

 private:
  int64_t period_;
  int64_t offset_;
};

void map(CheckpointMap& m) {
  m.config.assume("rms_norm_eps", 1e-6);
  m.tensors.also_named("final_layernorm.", "norm.");
  m.begin({.architecture = "jamba"});
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"pre_ff_layernorm", "ffn_norm"},
            {"feed_forward.gate_proj", "ffn_gate"},
            {"feed_forward.up_proj", "ffn_up"},
            {"feed_forward.down_proj", "ffn_down"},
            {"feed_forward.router", "ffn_gate_inp"}});
  m.attention();
  const char* const key = m.config.has("num_experts") ? "num_experts" : "num_local_experts";
  const int64_t experts = m.config.get_int(key, 16, 1, 65536);
  if (experts > 1) {
    const Every routed(m, "expert", 2, 1);
    m.keys.set_int("expert_count", experts);
    m.keys.set_int("expert_used_count", m.config.get_int("num_experts_per_tok", 2, 1, experts));
    for (int64_t i = 0; i < m.layer_count(); ++i) {
      if (routed(i)) add_experts(m.tensors, i, "feed_forward.experts", experts);
    }
  }
  const Every attends(m, "attn", 8, 4);
  const int64_t kv_heads = m.config.get_int("num_key_value_heads", m.head_count(), 1, 4096);
  const int64_t state = m.config.get_int("mamba_d_state", 16, 1, kMaxWidth);
  const int64_t taps = m.config.get_int("mamba_d_conv", 4, 2, kMostTaps);
  std::vector<int64_t> heads;
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    heads.push_back(attends(i) ? kv_heads : 0);
    if (attends(i)) continue;
    if (std::ranges::count(heads, 0) == 1) map_mamba(m, i, "mamba", state, taps);
    map_mamba_layer(m, i, "mamba", state, taps);
  }
  m.keys.set_ints("attention.head_count_kv", heads);
}

}  // namespace

const ArchDef& jamba_arch() {
  static constexpr const char* kNames[] = {"jamba"};
  static constexpr const char* kCheckpoints[] = {"JambaForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
