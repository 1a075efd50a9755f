// Nanbeige 4: the plain decoder, whose layers are gone through several times, each time with keys
// and values of their own; between the rounds lies the last norm. Nanbeige LLM Lab 2026.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

constexpr int64_t kMostRounds = 64;

class Nanbeige final : public DecoderModel {
 public:
  explicit Nanbeige(HparamReader& r)
      : DecoderModel(r, op::Rope::Style::interleaved),
        rounds_(r.get_int("num_loops", 1, 1, kMostRounds)),
        norm_between_(!r.get_bool("skip_loop_final_norm", false)) {
    const std::vector<KvLayerShape> of_round = info_.kv_layers;
    for (int64_t round = 1; round < rounds_; ++round) {
      info_.kv_layers.insert(info_.kv_layers.end(), of_round.begin(), of_round.end());
    }
  }

  void build(ModelBuilder& m) const override {
    if (rounds_ == 1) return DecoderModel::build(m);
    ValueId x = m.embed_tokens();
    for (int64_t round = 0; round < rounds_; ++round) {
      if (round > 0 && norm_between_) x = m.rms_norm(x, "output_norm.weight", params.eps);
      for (int64_t layer = 0; layer < params.layers; ++layer) {
        x = add_layer(m, x, layer, round, round + 1 == rounds_ && layer + 1 == params.layers);
      }
    }
    x = m.rms_norm(x, "output_norm.weight", params.eps);
    if (m.embeds()) return m.output_embedding(x);
    m.g.output(m.output_logits(x), "logits");
  }

 private:
  /// `last`: only the rows whose logits are wanted.
  ValueId add_layer(ModelBuilder& m, ValueId x, int64_t layer, int64_t round, bool last) const {
    const auto norm = [&](const char* name) {
      return m.rms_norm(x, block_name(layer, name), params.eps);
    };
    AttentionBlock block = attention[static_cast<size_t>(layer)];
    block.cache += static_cast<int32_t>(round * params.layers);
    m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
    ValueId mixed = attention_block(m, norm("attn_norm.weight"), block);
    if (last) {
      mixed = m.select_outputs(mixed);
      x = m.select_outputs(x);
    }
    x = m.add(x, mixed);
    m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
    return m.add(x, feed_forward(m, norm("ffn_norm.weight"), layer));
  }

  int64_t rounds_;
  bool norm_between_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Nanbeige>(r), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "nanbeige"});
  m.keys.set_int("num_loops", m.config.get_int("num_loops", 1, 1, kMostRounds));
  m.keys.set_bool("skip_loop_final_norm", m.config.get_bool("skip_loop_final_norm", false));
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& nanbeige_arch() {
  static constexpr const char* kNames[] = {"nanbeige"};
  static constexpr const char* kCheckpoints[] = {"NanbeigeForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
