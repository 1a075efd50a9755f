// MiniCPM3: DeepSeek's latent attention with half-split RoPE, and MiniCPM's constant factors on
// embeddings, residuals and logits. OpenBMB 2024.
//
// Its files have keys and values as one matrix ("attn_kv_b"), so that these are cached written out.
#include <algorithm>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"
#include "engine/model/latent_attention.h"
#include "engine/model/minicpm_scales.h"

namespace infer {
namespace {

class MiniCpm3 final : public DecoderModel {
 public:
  explicit MiniCpm3(HparamReader& r)
      : DecoderModel(r, op::Rope::Style::half_split), block_(r, params, 0) {
    block_.style = op::Rope::Style::half_split;
    if (!r.has("attention.value_length") && !r.has("attention.value_length_mla")) {
      block_.value = std::max<int64_t>(1, params.embedding / params.heads);
    }
    block_.set_caches(info_.kv_layers);
    read_minicpm_scales(r, *this);
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return latent_block(m, x, layer, block_, attention[static_cast<size_t>(layer)].cache);
  }

 private:
  LatentBlock block_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<MiniCpm3>(r), r);
}

void map(CheckpointMap& m) {
  m.config.assume("tie_word_embeddings", true);
  m.config.assume("rms_norm_eps", 1e-5);
  m.begin({.architecture = "minicpm3", .rope_width = "qk_rope_head_dim", .long_rope = true});
  m.config.assume("v_head_dim", m.config.need_int("hidden_size", 1, kMaxWidth) / m.head_count());
  map_minicpm_scales(m, {.embedding = 12, .depth = 1.4, .base = 256});
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  map_latent(m, false);
  m.feed_forward();
  if (map_long_rope(m)) m.keys.set_string("rope.scaling.type", "longrope");
}

}  // namespace

const ArchDef& minicpm3_arch() {
  static constexpr const char* kNames[] = {"minicpm3"};
  static constexpr const char* kCheckpoints[] = {"MiniCPM3ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
