// Mamba-2 and Codestral Mamba: every layer is the mixer of Mamba-2 alone. Dao & Gu 2024.
#include "engine/model/mamba2.h"
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr int64_t kMaxWidth = int64_t{1} << 20;
/// A text may be of any length; llama.cpp's converter writes this.
constexpr int64_t kContext = int64_t{1} << 20;

class Mamba2 final : public DecoderModel {
 public:
  explicit Mamba2(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split, true) {
    info_.ropes.clear();
    mamba_ = Mamba2Block(r, params.eps);
    drop_attention(std::vector<bool>(static_cast<size_t>(params.layers), true));
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      add_state(layer, mamba_.state_elements());
    }
  }

  void build(ModelBuilder& m) const override {
    ValueId x = m.embed_tokens();
    ValueId all = kNoValue;
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      const bool last = layer + 1 == params.layers;
      m.enter_layer(layer, x);
      m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
      const ValueId normed = m.rms_norm(x, block_name(layer, "attn_norm.weight"), params.eps);
      ValueId h = mamba2_block(m, normed, layer, mamba_, states[static_cast<size_t>(layer)]);
      if (last && m.hidden_apart()) all = m.add(x, h);
      // From here on only the rows whose logits are wanted.
      if (last) h = m.select_outputs(h);
      if (last) x = m.select_outputs(x);
      x = m.add(x, h);
    }
    const auto ended = [&](ValueId h) { return m.rms_norm(h, "output_norm.weight", params.eps); };
    m.enter_layer(params.layers, m.hidden_apart() ? all : x);
    if (m.hidden_apart() && info_.hidden_layers.empty()) m.return_hidden(ended(all));
    x = ended(x);
    if (!m.hidden_apart()) m.return_hidden(x);
    m.g.output(m.output_logits(x), "logits");
  }

 private:
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
