// Ministral 3 and Mistral Small 3: the plain decoder with interleaved RoPE, YaRN, and queries that
// grow with the logarithm of the position (as Llama 4 has them). Mistral AI 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  const double temperature = r.get_float("attention.temperature_scale", 0.0);
  if (temperature != 0) {
    RopeSpec queries = model->mutable_info().ropes[0];
    if (2 * queries.pairs != model->params.head_dim) {
      r.set_error(error(StatusCode::unsupported,
                        "{}: attention.temperature_scale: expected RoPE of whole heads of {} "
                        "elements, found {}",
                        r.metadata().source(), model->params.head_dim, 2 * queries.pairs));
    }
    const int64_t original = r.get_int("rope.scaling.original_context_length",
                                       model->params.context, 1, int64_t{1} << 31);
    queries.temperature = temperature;
    queries.temperature_length = static_cast<double>(
        r.get_int("attention.temperature_length", original, 1, int64_t{1} << 31));
    model->mutable_info().ropes.push_back(queries);
    for (AttentionBlock& block : model->attention) block.q_rope = 1;
  }
  return DecoderModel::finish(std::move(model), r);
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "mistral3", .rope_base = 1e6});
  m.config.require(window_of(m.config) == 0, "sliding_window");
  const std::string section = rope_section(m.config);
  if (const double beta = m.config.get_float(section + "llama_4_scaling_beta", 0.0); beta != 0) {
    m.keys.set_float("attention.temperature_scale", beta);
  }
  if (const double all = m.config.get_float(section + "mscale_all_dim", 0.0);
      all != 0 && m.config.get_float(section + "mscale", 0.0) != 0) {
    m.keys.set_float("rope.scaling.yarn_log_multiplier", all);
  }
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& mistral3_arch() {
  static constexpr const char* kNames[] = {"mistral3"};
  static constexpr const char* kCheckpoints[] = {"Mistral3ForConditionalGeneration",
                                                 "Ministral3ForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
