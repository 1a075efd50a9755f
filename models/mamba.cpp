// Mamba, Falcon Mamba, Mamba-2 and Codestral Mamba: every layer is the mixer of Mamba or of Mamba-2
// alone. Gu & Dao 2023, Technology Innovation Institute 2024, Dao & Gu 2024.
#include "engine/model/mamba.h"

#include "engine/model/checkpoint.h"
#include "engine/model/mamba2.h"
#include "engine/model/one_part_decoder.h"

namespace infer {
namespace {

/// A text may be of any length; llama.cpp's converter writes this.
constexpr int64_t kContext = int64_t{1} << 20;
/// Of Falcon Mamba's norms of the step, b and c.
constexpr float kInnerEps = 1e-6f;

class Mamba final : public OnePartModel {
 public:
  explicit Mamba(HparamReader& r)
      : OnePartModel(r, op::Rope::Style::half_split, true), second_(r.architecture() == "mamba2") {
    info_.ropes.clear();
    if (second_) {
      mamba2_ = Mamba2Block(r, params.eps);
    } else {
      mamba_ = MambaBlock(r, kInnerEps);
      mamba_.normed = r.get_bool("ssm.dt_b_c_rms", false);
    }
    drop_attention(std::vector<bool>(static_cast<size_t>(params.layers), true));
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      add_state(layer, second_ ? mamba2_.state_elements() : mamba_.state_elements());
    }
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const int32_t cache = states[static_cast<size_t>(layer)];
    return second_ ? mamba2_block(m, x, layer, mamba2_, cache)
                   : mamba_block(m, x, layer, mamba_, cache);
  }

 private:
  bool remembers(int64_t) const override { return true; }

  bool second_;
  MambaBlock mamba_;
  Mamba2Block mamba2_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Mamba>(r), r);
}

void map_first(CheckpointMap& m, bool falcon) {
  const int64_t state = m.config.get_int("state_size", 16, 1, kMaxWidth);
  const int64_t taps = m.config.get_int("conv_kernel", 4, 2, kMostTaps);
  m.keys.set_bool("ssm.dt_b_c_rms", falcon);
  const double eps = m.config.get_float("mixer_rms_eps", kInnerEps);
  m.config.require(static_cast<float>(eps) == kInnerEps, "this mixer_rms_eps");
  map_mamba(m, 0, "mixer", state, taps);
  for (int64_t i = 0; i < m.layer_count(); ++i) map_mamba_layer(m, i, "mixer", state, taps);
}

void map_second(CheckpointMap& m) {
  Mamba2Sizes sizes;
  sizes.heads = m.config.need_int("num_heads", 1, 4096);
  sizes.head = m.config.need_int("head_dim", 1, kMaxWidth);
  sizes.state = m.config.need_int("state_size", 1, kMaxWidth);
  sizes.groups = m.config.get_int("n_groups", 1, 1, sizes.heads);
  sizes.taps = m.config.get_int("conv_kernel", 4, 2, kMostTaps);
  require_open_steps(m);
  map_mamba2(m, sizes);
  for (int64_t i = 0; i < m.layer_count(); ++i) map_mamba2_layer(m, sizes, i, "mixer");
}

void map(CheckpointMap& m) {
  const bool second = m.config.checkpoint() == "Mamba2ForCausalLM";
  m.config.assume("num_attention_heads", int64_t{1});
  m.config.assume("intermediate_size", int64_t{1});
  m.config.assume("max_position_embeddings", kContext);
  m.config.assume("rms_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-5));
  for (const char* name : {"embeddings.", "embedding."}) {
    if (m.tensors.has(std::string(name) + "weight")) m.tensors.also_named(name, "embed_tokens.");
  }
  m.tensors.also_named("norm_f.", "norm.");
  m.begin({.architecture = second ? "mamba2" : "mamba"});
  // There is neither.
  m.keys.set_int("attention.head_count", 0);
  m.keys.set_int("attention.head_count_kv", 0);
  m.keys.set_int("feed_forward_length", 0);
  m.ends();
  m.layers({{"norm", "attn_norm"}});
  if (second) return map_second(m);
  map_first(m, m.config.checkpoint() == "FalconMambaForCausalLM");
}

}  // namespace

const ArchDef& mamba_arch() {
  static constexpr const char* kNames[] = {"mamba", "mamba2"};
  static constexpr const char* kCheckpoints[] = {"MambaForCausalLM", "FalconMambaForCausalLM",
                                                 "Mamba2ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
