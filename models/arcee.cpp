// Arcee (AFM-4.5B): Llama's decoder whose feed-forward has no gate and a squared ReLU. Arcee AI
// 2025; So et al. 2021.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class Arcee final : public DecoderModel {
 public:
  explicit Arcee(HparamReader& r) : DecoderModel(r, op::Rope::Style::interleaved) {}

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return squared_relu_block(m, x, layer, params.feed_forward[static_cast<size_t>(layer)]);
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Arcee>(r), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "arcee", .activation = "relu2"});
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& arcee_arch() {
  static constexpr const char* kNames[] = {"arcee"};
  static constexpr const char* kCheckpoints[] = {"ArceeForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
