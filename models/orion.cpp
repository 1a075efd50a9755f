// Orion 14B: the plain decoder with half-split RoPE and LayerNorms in place of RMSNorms. OrionStar
// 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class Orion final : public DecoderModel {
 public:
  explicit Orion(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    params.eps = r.epsilon("attention.layer_norm_epsilon");
    layer_norms = true;
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Orion>(r), r);
}

void map(CheckpointMap& m) {
  if (m.config.has("max_sequence_length")) {
    m.config.assume("max_position_embeddings",
                    m.config.need_int("max_sequence_length", 1, kMaxContext));
  }
  // The key of RMSNorm is that of the LayerNorms here.
  m.config.assume("layer_norm_eps", m.config.get_float("rms_norm_eps", 1e-5));
  m.begin({.architecture = "orion", .layer_norms = true});
  m.ends();
  m.tensors.copy("norm.bias", "output_norm.bias");
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& orion_arch() {
  static constexpr const char* kNames[] = {"orion"};
  static constexpr const char* kCheckpoints[] = {"OrionForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
