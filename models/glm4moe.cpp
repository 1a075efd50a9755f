// GLM-4.5, 4.6, 4.7 and Air: half-split RoPE over part of the head, biases on q, k and v, in the
// large ones an RMSNorm on every q and k head; leading layers without experts, then experts chosen
// by sigmoid with a bias on the choice, beside one that every token takes; also the text of
// GLM-4.5V and GLM-4.6V, whose pairs of RoPE have axes. GLM-4.5 Team 2025. Solar Open is the same
// without biases and without such leading layers, with RoPE over all of the head. Upstage 2026.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> read(HparamReader r) {
  const WeightSource& source = r.source();
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->ffn_norm_name = "post_attention_norm";  // what the files call the norm before it
  read_axes(r, model->mutable_info().ropes[0], false);
  if (source.find("blk.0.attn_q_norm.weight") != nullptr) {
    for (AttentionBlock& block : model->attention) block.qk_norm = AttentionBlock::QkNorm::per_head;
  }
  model->experts.route = read_route(r, model->params, 2, true);
  model->experts.shared_width = r.get_int("expert_shared_count", 0, 0, 1024) * model->experts.width;
  return DecoderModel::finish(std::move(model), r);
}

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  return read(HparamReader(source));
}

Result<std::unique_ptr<Model>> create_head(const WeightSource& source, int64_t which) {
  return read(HparamReader(source, HparamReader::Part::head, which));
}

void map(CheckpointMap& m) {
  const bool solar = m.config.checkpoint() == "SolarOpenForCausalLM";
  if (solar) {
    // Its configuration leaves out the width of the layers that it does not have.
    m.config.assume("intermediate_size", m.config.need_int("moe_intermediate_size", 1, kMaxWidth));
    m.config.assume("head_dim", int64_t{128});
    m.config.assume("n_shared_experts", int64_t{1});
  } else {
    m.config.assume("partial_rotary_factor", 0.5);
  }
  m.begin({.architecture = "glm4moe", .rope_base = solar ? 1e6 : 10000.0});
  if (m.config.checkpoint() == "Glm4vMoeForConditionalGeneration") map_axes(m, {8, 12, 12});
  if (!solar) m.add_deepseek_heads();
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "post_attention_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"}});
  m.attention();
  m.feed_forward();
  map_deepseek_experts(m, DeepseekRouting::v3);
}

}  // namespace

const ArchDef& glm4moe_arch() {
  static constexpr const char* kNames[] = {"glm4moe"};
  static constexpr const char* kCheckpoints[] = {
      "Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration", "SolarOpenForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map, create_head};
  return def;
}

}  // namespace infer
