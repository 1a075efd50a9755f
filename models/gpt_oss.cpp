// gpt-oss: experts with a clamped SwiGLU and biases, chosen before the softmax; attention sinks,
// every other layer with a sliding window; YaRN without rounding of its bounds.
// OpenAI, gpt-oss model card 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

#include <cmath>

namespace infer {
namespace {

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  model->ffn_norm_name = "post_attention_norm";  // what the files call the norm before the experts
  model->glu.kind = op::Glu::Kind::swiglu_oai;
  model->experts.route.gating = op::MoeRoute::Gating::softmax_of_chosen;
  model->experts.route.normalise = false;
  model->mutable_info().ropes[0].yarn_rounding = false;
  const auto window = r.get_int("attention.sliding_window", 128, 0, INT32_MAX);
  for (int64_t layer = 0; layer < model->params.layers; layer += 2) {
    model->set_window(layer, static_cast<int32_t>(window));
  }
  return DecoderModel::finish(std::move(model), r);
}

/// An expert's gate and up rows alternate. Published models hold them as MXFP4, in rows; others as
/// floating point, transposed.
void map_experts(CheckpointMap& m, int64_t layer) {
  const std::string from = layer_name(layer, "mlp.experts.");
  const std::string to = block_name(layer, "ffn_");
  const auto put_halves = [&](const char* part, const TensorView& both, size_t dim, auto put) {
    const int64_t count = both.shape[dim] / 2;
    put(to + "gate_exps" + part, both.sliced(dim, 0, count, 2));
    put(to + "up_exps" + part, both.sliced(dim, 1, count, 2));
  };
  if (m.tensors.has(from + "gate_up_proj_blocks")) {
    const std::string scales = from + "gate_up_proj_scales";
    put_halves(".weight", m.tensors.view_mxfp4(from + "gate_up_proj_blocks", scales), 1,
               [&](const std::string& name, const TensorView& half) {
                 m.tensors.put_mxfp4(name, half, scales);
               });
    m.tensors.put_mxfp4(to + "down_exps.weight",
                        m.tensors.view_mxfp4(from + "down_proj_blocks", from + "down_proj_scales"),
                        from + "down_proj_scales");
  } else {
    const auto whole = [&](const std::string& name) {
      const auto shape = m.tensors.shape_of(name);
      return m.tensors.view(name, {shape[0], shape[1], shape[2]});
    };
    put_halves(".weight", whole(from + "gate_up_proj"), 0,
               [&](const std::string& name, const TensorView& half) {
                 m.tensors.put(name, half.swapped(0, 1));
               });
    m.tensors.put(to + "down_exps.weight", whole(from + "down_proj").swapped(0, 1));
  }
  const auto shape = m.tensors.shape_of(from + "gate_up_proj_bias");
  put_halves(".bias", m.tensors.view(from + "gate_up_proj_bias", {shape[0], shape[1]}), 0,
             [&](const std::string& name, const TensorView& half) { m.tensors.put(name, half); });
  m.tensors.copy(from + "down_proj_bias", to + "down_exps.bias");
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "gpt-oss",
           .quantisation = "mxfp4",
           .rope_base = 150000.0,
           .yarn_rounding = false});
  require_layer_types(m, [](int64_t layer) { return layer % 2 == 0; });
  m.config.require(m.config.get_float("swiglu_limit", 7.0) == 7.0, "this swiglu_limit");
  m.config.require(std::fabs(m.config.get_float("swiglu_alpha", 1.702) - 1.702) < 1e-6,
                   "this swiglu_alpha");
  m.keys.set_int("attention.sliding_window", m.config.get_int("sliding_window", 128, 1, INT32_MAX));
  const int64_t experts = m.config.need_int("num_local_experts", 1, 65536);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.get_int("num_experts_per_tok", 4, 1, experts));
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("intermediate_size", 1, kMaxWidth));
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "post_attention_norm"},
            {"mlp.router", "ffn_gate_inp"}});
  m.attention();
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "self_attn.sinks"), block_name(i, "attn_sinks.weight"));
    map_experts(m, i);
  }
}

}  // namespace

const ArchDef& gpt_oss_arch() {
  static constexpr const char* kNames[] = {"gpt-oss"};
  static constexpr const char* kCheckpoints[] = {"GptOssForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.gate_up_in_turns = true}};
  return def;
}

}  // namespace infer
