// MiMo-V2 Flash: half-split RoPE over a part of the head, values narrower than keys and multiplied
// by a number, windows with sinks in most layers, whose RoPE has a base of its own; experts chosen
// by sigmoid with a bias on the choice, where a layer has any. Xiaomi 2025.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"

namespace infer {
namespace {

Result<std::unique_ptr<Model>> read(HparamReader r) {
  auto model = std::make_unique<DecoderModel>(r, op::Rope::Style::half_split);
  const DecoderParams& p = model->params;
  ModelInfo& info = model->mutable_info();
  info.takes_unnormed = model->is_head();
  info.ropes.push_back(unscaled(info.ropes[0], r.get_float("rope.freq_base_swa", 10000.0)));
  const auto window =
      static_cast<int32_t>(r.get_int("attention.sliding_window", 128, 1, INT32_MAX));
  const std::vector<bool> sliding = r.sliding_layers(p.layers, 6);
  const auto scale = static_cast<float>(r.get_float("attention.value_scale", 1.0));
  for (int64_t layer = p.first_layer; layer < p.layers; ++layer) {
    AttentionBlock& block = model->attention[static_cast<size_t>(layer)];
    block.output_scale = scale;
    if (!sliding[static_cast<size_t>(layer)]) continue;
    block.rope = 1;
    model->set_window(layer, window);
  }
  model->experts.route = read_route(r, p, 2, true);
  return DecoderModel::finish(std::move(model), r);
}

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  return read(HparamReader(source));
}

Result<std::unique_ptr<Model>> create_head(const WeightSource& source, int64_t which) {
  return read(HparamReader(source, HparamReader::Part::head, which));
}

/// The sizes of the layers with a window are those of the others.
void require_equal_heads(CheckpointMap& m) {
  for (const auto& [of_window, of_all] :
       {std::pair{"swa_num_attention_heads", "num_attention_heads"},
        {"swa_head_dim", "head_dim"},
        {"swa_v_head_dim", "v_head_dim"}}) {
    const int64_t all = m.config.need_int(of_all, 1, kMaxWidth);
    m.config.require(m.config.get_int(of_window, all, 1, kMaxWidth) == all,
                     fmt::format("a {} other than {}", of_window, of_all));
  }
}

/// Which layers have a window, as the published configurations say it, or as transformers writes
/// it.
std::vector<bool> sliding_layers(CheckpointMap& m) {
  std::vector<bool> sliding;
  for (const int64_t kind : m.config.get_ints("hybrid_layer_pattern")) sliding.push_back(kind == 1);
  if (sliding.empty()) return map_sliding_layers(m, 6);
  m.config.require(sliding.size() == static_cast<size_t>(m.layer_count()),
                   "this number of entries in hybrid_layer_pattern");
  sliding.resize(static_cast<size_t>(m.layer_count()));
  return sliding;
}

/// The window in tokens, a query's own included. The published key counts those before it.
int64_t window_of(CheckpointMap& m) {
  const int64_t before = m.config.get_int("sliding_window_size", 0, 0, INT32_MAX - 1);
  return before > 0 ? before + 1 : m.config.get_int("sliding_window", 129, 1, INT32_MAX);
}

/// The layers that predict further tokens, each as one more layer with a window.
void map_heads(CheckpointMap& m) {
  for (int64_t i = 0; i < kMostNextLayers; ++i) {
    const std::string from = fmt::format("mtp.layers.{}.", i);
    if (!m.tensors.has(from + "eh_proj.weight")) break;
    const int64_t layer = m.layer_count();
    m.add_head_layer();
    m.tensors.also_named(from, layer_name(layer, ""));
    for (const auto& [part, to] : {std::pair{"eh_proj", "nextn.eh_proj"},
                                   {"enorm", "nextn.enorm"},
                                   {"hnorm", "nextn.hnorm"},
                                   {"pre_mlp_layernorm", "ffn_norm"},
                                   {"final_layernorm", "layer_output_norm"}}) {
      m.tensors.copy(layer_name(layer, std::string(part) + ".weight"),
                     block_name(layer, to) + ".weight");
    }
  }
}

void map_experts(CheckpointMap& m) {
  const int64_t experts = m.config.need_int("n_routed_experts", 1, 65536);
  m.config.require(m.config.get_int("n_shared_experts", 0, 0, 1024) == 0, "n_shared_experts");
  m.config.require(m.config.get_string("scoring_func", "sigmoid") == "sigmoid",
                   "this scoring_func");
  m.config.require(m.config.get_string("topk_method", "noaux_tc") == "noaux_tc",
                   "this topk_method");
  m.config.require(m.config.get_int("n_group", 1, 1, experts) == 1, "n_group");
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("moe_intermediate_size", 1, kMaxWidth));
  m.keys.set_int("expert_gating_func", 2);
  m.keys.set_bool("expert_weights_norm", m.config.get_bool("norm_topk_prob", true));
  m.keys.set_float("expert_weights_scale", m.config.get_float("routed_scaling_factor", 1.0));
  m.layers({{"mlp.gate", "ffn_gate_inp"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    if (!m.tensors.has(layer_name(i, "mlp.gate.weight"))) continue;
    m.tensors.copy(layer_name(i, "mlp.gate.e_score_correction_bias"),
                   block_name(i, "exp_probs_b.bias"));
    add_experts(m.tensors, i, "mlp.experts", experts);
  }
}

/// Layers with a window have a number of key-value heads of their own.
void map_key_heads(CheckpointMap& m) {
  const int64_t head = m.config.need_int("head_dim", 1, kMaxWidth);
  std::vector<int64_t> heads;
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    // Published models with all three in one have the rows in the order of the machines that they
    // were trained on.
    m.config.require(!m.tensors.has(layer_name(i, "self_attn.qkv_proj.weight")),
                     "queries, keys and values in one tensor, qkv_proj");
    heads.push_back(m.tensors.shape_of(layer_name(i, "self_attn.k_proj.weight"))[1] / head);
  }
  m.keys.set_ints("attention.head_count_kv", heads);
}

void map(CheckpointMap& m) {
  m.config.assume("rms_norm_eps", m.config.get_float("layernorm_epsilon", 1e-5));
  m.config.assume("partial_rotary_factor", 0.334);
  m.begin({.architecture = "mimo2"});
  require_equal_heads(m);
  m.keys.set_int("attention.value_length", m.config.need_int("v_head_dim", 1, kMaxWidth));
  m.keys.set_float("attention.value_scale", m.config.get_float("attention_value_scale", 0.707));
  m.keys.set_int("attention.sliding_window", window_of(m));
  m.keys.set_float("rope.freq_base_swa",
                   m.config.get_float("rope_parameters.sliding_attention.rope_theta",
                                      m.config.get_float("swa_rope_theta", 10000.0)));
  const double share = m.config.get_float(rope_section(m.config) + "partial_rotary_factor",
                                          m.config.get_float("partial_rotary_factor", 1.0));
  m.config.require(
      m.config.get_float("rope_parameters.sliding_attention.partial_rotary_factor", share) == share,
      "another partial_rotary_factor of sliding_attention");
  std::vector<bool> sliding = sliding_layers(m);
  map_heads(m);
  sliding.resize(static_cast<size_t>(m.layer_count()), true);
  m.keys.set_flags("attention.sliding_window_pattern", sliding);
  map_key_heads(m);
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    for (const char* name : {"self_attn.attention_sink_bias", "self_attn.sinks"}) {
      m.tensors.copy(layer_name(i, name), block_name(i, "attn_sinks.weight"));
    }
  }
  map_experts(m);
}

}  // namespace

const ArchDef& mimo2_arch() {
  static constexpr const char* kNames[] = {"mimo2"};
  static constexpr const char* kCheckpoints[] = {"MiMoV2FlashForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map, create_head};
  return def;
}

}  // namespace infer
