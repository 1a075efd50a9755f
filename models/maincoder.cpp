// Maincoder: the plain decoder with interleaved RoPE and, after it, an RMSNorm on every q and k
// head. Checkpoints have the rows that RoPE turns together side by side already. Maincode 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  for (AttentionBlock& block : model->attention) {
    block.qk_norm = AttentionBlock::QkNorm::per_head;
    block.norm_last = true;
  }
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "maincoder"});
  m.config.require(m.config.get_bool("use_qk_norm", true), "use_qk_norm false");
  require_no_window(m);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& maincoder_arch() {
  static constexpr const char* kNames[] = {"maincoder"};
  static constexpr const char* kCheckpoints[] = {"MaincoderForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
