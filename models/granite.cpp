// Granite 3 and its experts: the plain decoder with interleaved RoPE and constant factors on
// embeddings, scores, residuals and logits. Of Granite 4's hybrids most layers are Mamba-2. Of
// Granite Swash ("granite_swa") most layers have a sliding window, all have sinks, and some may be
// without RoPE. IBM Research 2024, 2025, 2026.
#include <algorithm>

#include "engine/core/file.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/decoder.h"
#include "engine/model/mamba2.h"

namespace infer {
namespace {

/// Layers without key-value heads are Mamba-2.
class GraniteHybrid final : public DecoderModel {
 public:
  explicit GraniteHybrid(HparamReader& r)
      : DecoderModel(r, op::Rope::Style::interleaved, true), mamba_(r, params.eps) {
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      if (!attends(layer)) add_state(layer, mamba_.state_elements());
    }
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    if (attends(layer)) return DecoderModel::attend(m, x, layer);
    return mamba2_block(m, x, layer, mamba_, states[static_cast<size_t>(layer)]);
  }

 private:
  Mamba2Block mamba_;
};

/// Which layers have a window, and which RoPE.
void set_windows(HparamReader& r, DecoderModel& model) {
  const auto window = static_cast<int32_t>(r.need_int("attention.sliding_window", 1, INT32_MAX));
  const std::vector<bool> sliding = r.sliding_layers(model.params.layers, 0);
  const std::vector<bool> rotated = r.flags("attention.rope_pattern", model.params.layers);
  for (AttentionBlock& block : model.attention) {
    const auto layer = static_cast<size_t>(block.layer);
    if (sliding[layer]) model.set_window(block.layer, window);
    if (!rotated.empty()) block.rotate = rotated[layer];
  }
}

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  std::unique_ptr<DecoderModel> model;
  if (r.architecture() == "granitehybrid") {
    model = std::make_unique<GraniteHybrid>(r);
  } else {
    model = std::make_unique<DecoderModel>(r, op::Rope::Style::interleaved);
  }
  model->embedding_scale = static_cast<float>(r.get_float("embedding_scale", 1.0));
  model->residual_scale = static_cast<float>(r.get_float("residual_scale", 1.0));
  // What the key is used for: models without position embedding hold false.
  const bool rotate = r.get_bool("rope.scaling.finetuned", true);
  for (AttentionBlock& block : model->attention) block.rotate = rotate;
  if (r.architecture() == "granite_swa") set_windows(r, *model);
  const double divisor = r.get_float("logit_scale", 1.0);
  if (!(divisor > 0)) {
    r.set_error(error(StatusCode::bad_file, "{}: logit_scale: expected more than 0, found {}",
                      r.metadata().source(), divisor));
  }
  model->logit_scale = static_cast<float>(1.0 / divisor);
  return DecoderModel::finish(std::move(model), r);
}

/// The experts' gate and up projections are one tensor, as are those of the expert that every token
/// takes.
void map_experts(CheckpointMap& m) {
  const int64_t experts = m.config.need_int("num_local_experts", 1, 65536);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  m.layers({{"block_sparse_moe.router.layer", "ffn_gate_inp"},
            {"block_sparse_moe.output_linear", "ffn_down_exps"},
            {"shared_mlp.output_linear", "ffn_down_shexp"}});
  const int64_t shared = m.config.get_int("shared_intermediate_size", 0, 0, kMaxWidth);
  if (shared > 0) m.keys.set_int("expert_shared_feed_forward_length", shared);
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const std::string to = block_name(i, "ffn_");
    m.tensors.split_rows(layer_name(i, "block_sparse_moe.input_linear.weight"),
                         to + "gate_exps.weight", to + "up_exps.weight");
    if (shared == 0) continue;
    m.tensors.split_rows(layer_name(i, "shared_mlp.input_linear.weight"), to + "gate_shexp.weight",
                         to + "up_shexp.weight");
  }
}

/// The same with both projections in one tensor. Experts may be named as in transformers.
void map_joined_experts(CheckpointMap& m) {
  const int64_t experts = m.config.need_int("num_local_experts", 1, 65536);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  if (const int64_t shared = m.config.get_int("shared_intermediate_size", 0, 0, kMaxWidth);
      shared > 0) {
    m.keys.set_int("expert_shared_feed_forward_length", shared);
  }
  m.layers({{"block_sparse_moe.router", "ffn_gate_inp"},
            {"block_sparse_moe.router.layer", "ffn_gate_inp"},
            {"shared_mlp.input_linear", "ffn_up_shexp"},
            {"shared_mlp.output_linear", "ffn_down_shexp"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    for (const auto& [from, to] : {std::pair{"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
                                   {"experts.down_proj", "ffn_down_exps.weight"},
                                   {"input_linear.weight", "ffn_gate_up_exps.weight"},
                                   {"output_linear.weight", "ffn_down_exps.weight"}}) {
      m.tensors.copy(layer_name(i, std::string("block_sparse_moe.") + from), block_name(i, to));
    }
  }
}

/// Layers with a window, sinks, and bases of RoPE by layer, where 0 means none.
void map_windows(CheckpointMap& m) {
  m.keys.set_int("attention.sliding_window", m.config.get_int("sliding_window", 128, 1, INT32_MAX));
  if (m.config.has("layer_types")) {
    map_sliding_layers(m, 0);
  } else {
    std::vector<bool> sliding;
    for (int64_t i = 0; i < m.layer_count(); ++i) sliding.push_back(i % 4 != 0);
    m.keys.set_flags("attention.sliding_window_pattern", sliding);
  }
  std::vector<bool> rotated;
  double base = 0;
  bool same = true;
  for (const float of_layer : m.config.get_floats("layer_rope_theta")) {
    rotated.push_back(of_layer != 0);
    if (of_layer == 0) continue;
    same = same && (base == 0 || base == of_layer);
    base = of_layer;
  }
  m.config.require(same, "layer_rope_theta with several bases");
  if (base != 0) m.keys.set_float("rope.freq_base", base);
  for (const int64_t on : m.config.get_ints("no_rope_layers")) {  // 1: with RoPE
    if (!m.config.has("layer_rope_theta")) rotated.push_back(on != 0);
  }
  m.config.require(rotated.empty() || std::ssize(rotated) == m.layer_count(),
                   "this number of entries in layer_rope_theta or no_rope_layers");
  if (std::ranges::find(rotated, false) != rotated.end()) {
    m.keys.set_flags("attention.rope_pattern", rotated);
  }
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "self_attn.sinks"), block_name(i, "attn_sinks.weight"));
  }
}

/// Which layers are Mamba-2, and these.
void map_hybrid(CheckpointMap& m) {
  const Mamba2Sizes sizes = read_mamba2_sizes(m);
  map_mamba2(m, sizes);
  const int64_t kv_heads = m.config.get_int("num_key_value_heads", m.head_count(), 1, 4096);
  const std::vector<std::string>* types = m.config.get_strings("layer_types");
  const bool each = types != nullptr && types->size() == static_cast<size_t>(m.layer_count());
  m.config.require(each, "no type for each of the layer_types");
  std::vector<int64_t> heads;
  for (int64_t i = 0; each && i < m.layer_count(); ++i) {
    const std::string& type = (*types)[static_cast<size_t>(i)];
    const bool attends = type == "attention" || type == "full_attention";
    m.config.require(attends || type == "mamba" || type == "linear_attention",
                     "layer_types '" + printable(type) + "'");
    heads.push_back(attends ? kv_heads : 0);
    if (heads.back() == 0) map_mamba2_layer(m, sizes, i, "mamba");
  }
  m.keys.set_ints("attention.head_count_kv", heads);
  m.keys.set_bool("rope.scaling.finetuned",
                  m.config.get_string("position_embedding_type", "") == "rope");
}

/// Hybrids without experts have the one that every token takes.
void map_shared(CheckpointMap& m) {
  m.keys.set_int("feed_forward_length",
                 m.config.need_int("shared_intermediate_size", 1, kMaxWidth));
  m.layers({{"shared_mlp.output_linear", "ffn_down"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.split_rows(layer_name(i, "shared_mlp.input_linear.weight"),
                         block_name(i, "ffn_gate.weight"), block_name(i, "ffn_up.weight"));
  }
}

void map(CheckpointMap& m) {
  const bool hybrid = m.config.checkpoint() == "GraniteMoeHybridForCausalLM";
  const bool slides = m.config.checkpoint().find("SWA") != std::string::npos;
  const bool routed = hybrid ? m.config.get_int("num_local_experts", 0, 0, 65536) > 0
                             : m.config.checkpoint().starts_with("GraniteMoe");
  m.begin({.architecture = hybrid   ? "granitehybrid"
                           : slides ? "granite_swa"
                           : routed ? "granitemoe"
                                    : "granite"});
  m.keys.set_float("embedding_scale", m.config.get_float("embedding_multiplier", 1.0));
  m.keys.set_float("residual_scale", m.config.get_float("residual_multiplier", 1.0));
  m.keys.set_float("attention.scale", m.config.get_float("attention_multiplier", 1.0));
  m.keys.set_float("logit_scale", m.config.get_float("logits_scaling", 1.0));
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  if (hybrid) map_hybrid(m);
  if (hybrid && !routed) return map_shared(m);
  if (slides) map_windows(m);
  if (slides && routed) return map_joined_experts(m);
  routed ? map_experts(m) : m.feed_forward();
}

}  // namespace

const ArchDef& granite_arch() {
  static constexpr const char* kNames[] = {"granite", "granitemoe", "granitehybrid", "granite_swa"};
  static constexpr const char* kCheckpoints[] = {
      "GraniteForCausalLM",          "GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM",
      "GraniteMoeHybridForCausalLM", "GraniteSWAForCausalLM", "GraniteMoeSWAForCausalLM"};
  static const ArchDef def{.names = kNames,
                           .create = create,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
