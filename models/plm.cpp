// PLM: DeepSeek's latent attention, whose queries are projected directly, and a feed-forward
// without a gate and a squared ReLU. Deng et al. 2025.
//
// Its files have keys and values as one matrix ("attn_kv_b"), so that these are cached written out.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"
#include "engine/model/latent_attention.h"

namespace infer {
namespace {

class Plm final : public DecoderModel {
 public:
  explicit Plm(HparamReader& r)
      : DecoderModel(r, op::Rope::Style::interleaved), block_(r, params, 0) {
    block_.set_caches(info_.kv_layers);
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return latent_block(m, x, layer, block_, attention[static_cast<size_t>(layer)].cache);
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return squared_relu_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)]);
  }

 private:
  LatentBlock block_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Plm>(r), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "plm", .activation = "relu2", .rope_width = "qk_rope_head_dim"});
  m.config.require(m.config.get_int("q_lora_rank", 0, 0, kMaxWidth) == 0, "q_lora_rank");
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  map_latent(m, false);
  m.feed_forward();
}

}  // namespace

const ArchDef& plm_arch() {
  static constexpr const char* kNames[] = {"plm"};
  static constexpr const char* kCheckpoints[] = {"PLMForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
