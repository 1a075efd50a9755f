// BitNet b1.58: the plain decoder with half-split RoPE and weights of three levels, an RMSNorm
// before the last product of each part. The 2B model has a squared ReLU in place of SiLU; its files
// have the second name. Ma et al. 2024 and 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

class BitNet final : public DecoderModel {
 public:
  explicit BitNet(HparamReader& r) : DecoderModel(r, op::Rope::Style::half_split) {
    squared_ = r.architecture() != "bitnet";
    for (AttentionBlock& block : attention) block.sub_norm = true;
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const int64_t width = params.feed_forward[static_cast<size_t>(layer)];
    const ValueId gate = m.linear(x, block_name(layer, "ffn_gate"), width);
    const ValueId up = m.linear(x, block_name(layer, "ffn_up"), width);
    ValueId h = kNoValue;
    if (squared_) {
      // max(gate, 0)·gate is the square of ReLU.
      h = m.g.add(op::Glu{op::Glu::Kind::relu}, {gate, gate});
      h = m.g.add(op::Glu{op::Glu::Kind::bilinear}, {h, up});
    } else {
      h = m.g.add(op::Glu{op::Glu::Kind::silu}, {gate, up});
    }
    h = m.rms_norm(h, block_name(layer, "ffn_sub_norm.weight"), params.eps);
    return m.linear(h, block_name(layer, "ffn_down"), params.embedding);
  }

 private:
  bool squared_ = false;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<BitNet>(r), r);
}

void map(CheckpointMap& m) {
  m.config.assume("hidden_act", std::string("relu2"));
  m.config.assume("rms_norm_eps", 1e-5);
  m.begin({.architecture = "bitnet-b1.58", .activation = "relu2", .rope_base = 500000.0});
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.attn_sub_norm", "attn_sub_norm"},
            {"mlp.ffn_sub_norm", "ffn_sub_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& bitnet_arch() {
  static constexpr const char* kNames[] = {"bitnet", "bitnet-b1.58"};
  static constexpr const char* kCheckpoints[] = {"BitNetForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
