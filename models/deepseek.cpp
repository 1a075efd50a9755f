// DeepSeekMoE 16B: Llama's attention; behind the first layers experts chosen by softmax, whose
// weights are not normalised, beside some that every token takes. Dai et al. 2024.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  model->experts.route = read_route(r, model->params, 1, false);
  model->experts.shared_width = r.get_int("expert_shared_count", 0, 0, 1024) * model->experts.width;
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "deepseek"});
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
  map_deepseek_experts(m, DeepseekRouting::v2);
}

}  // namespace

const ArchDef& deepseek_arch() {
  static constexpr const char* kNames[] = {"deepseek"};
  static constexpr const char* kCheckpoints[] = {"DeepseekForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
