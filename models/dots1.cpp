// dots.llm1: half-split RoPE and an RMSNorm on every q and k head; leading layers without experts,
// then experts chosen as in DeepSeek V3, beside those that every token takes. Huo et al. 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
  model->experts.route = read_route(r, model->params, 2, false);
  model->experts.shared_width = r.get_int("expert_shared_count", 0, 0, 1024) * model->experts.width;
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "dots1"});
  require_layer_types(m, [](int64_t) { return false; });
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"}});
  m.attention();
  m.feed_forward();
  m.config.assume("norm_topk_prob", false);
  map_deepseek_experts(m, DeepseekRouting::v3);
}

}  // namespace

const ArchDef& dots1_arch() {
  static constexpr const char* kNames[] = {"dots1"};
  static constexpr const char* kCheckpoints[] = {"Dots1ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
