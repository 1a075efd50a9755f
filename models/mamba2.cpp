// Mamba-2 and Codestral Mamba: every layer is the mixer of Mamba-2 alone. Dao & Gu 2024.
#include "engine/model/mamba2.h"
#include "engine/model/checkpoint.h"
#include "engine/model/one_part_decoder.h"

namespace infer {
namespace {

/// A text may be of any length; llama.cpp's converter writes this.
constexpr int64_t kContext = int64_t{1} << 20;

class Mamba2 final : public OnePartModel {
 public:
  explicit Mamba2(HparamReader& r) : OnePartModel(r, op::Rope::Style::half_split, true) {
    info_.ropes.clear();
    mamba_ = Mamba2Block(r, params.eps);
    drop_attention(std::vector<bool>(static_cast<size_t>(params.layers), true));
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      add_state(layer, mamba_.state_elements());
    }
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return mamba2_block(m, x, layer, mamba_, states[static_cast<size_t>(layer)]);
  }

 private:
  bool remembers(int64_t) const override { return true; }

  Mamba2Block mamba_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Mamba2>(r), r);
}

void map(CheckpointMap& m) {
  m.config.assume("num_attention_heads", int64_t{1});
  m.config.assume("intermediate_size", int64_t{1});
  m.config.assume("max_position_embeddings", kContext);
  m.config.assume("rms_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-5));
  for (const char* name : {"embeddings.", "embedding."}) {
    if (m.tensors.has(std::string(name) + "weight")) m.tensors.also_named(name, "embed_tokens.");
  }
  m.tensors.also_named("norm_f.", "norm.");
  m.begin({.architecture = "mamba2"});
  // There is neither.
  m.keys.set_int("attention.head_count", 0);
  m.keys.set_int("attention.head_count_kv", 0);
  m.keys.set_int("feed_forward_length", 0);
  m.ends();
  m.layers({{"norm", "attn_norm"}});
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

}  // namespace

const ArchDef& mamba2_arch() {
  static constexpr const char* kNames[] = {"mamba2"};
  static constexpr const char* kCheckpoints[] = {"Mamba2ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
