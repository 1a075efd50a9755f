#include "engine/model/checkpoint_experts.h"

#include <algorithm>
#include <array>

#include "engine/model/builder.h"

namespace infer {

void add_experts(CheckpointTensors& tensors, int64_t layer, const std::string& in, int64_t count,
                 const ExpertNames& names) {
  const std::string from = layer_name(layer, in) + ".";
  const std::string to = fmt::format("blk.{}.ffn_", layer);
  if (tensors.has(from + "gate_up_proj")) {
    tensors.split_rows(from + "gate_up_proj", to + "gate_exps.weight", to + "up_exps.weight");
    const std::array<int64_t, kMaxDims> shape = tensors.shape_of(from + "down_proj");
    tensors.put(to + "down_exps.weight",
                tensors.view(from + "down_proj", {shape[0], shape[1], shape[2]}));
    return;
  }
  const auto stack = [&](const char* part, const std::string& name) {
    if (part == nullptr) return;
    if (tensors.has(from + part)) {
      const std::array<int64_t, kMaxDims> shape = tensors.shape_of(from + part);
      tensors.put(to + name + ".weight", tensors.view(from + part, {shape[0], shape[1], shape[2]}));
      return;
    }
    std::vector<TensorView> parts;
    std::vector<TensorView> scales;
    const bool joined = part != names.down && tensors.has(from + "0." + names.both + ".weight");
    for (int64_t e = 0; e < count && tensors.ok(); ++e) {
      const std::string tensor = fmt::format("{}{}.{}", from, e, joined ? names.both : part);
      const std::array<int64_t, kMaxDims> shape = tensors.shape_of(tensor + ".weight");
      const TensorView all = tensors.view(tensor + ".weight", {shape[0], shape[1]});
      const int64_t half = shape[1] / 2;
      parts.push_back(joined ? all.sliced(1, part == names.gate ? 0 : half, half) : all);
      if (tensors.has(tensor + kProductScale) || !scales.empty()) {
        scales.push_back(tensors.view(tensor + kProductScale, {1}));
      }
    }
    tensors.put_stacked(to + name + ".weight", std::move(parts));
    tensors.put_parts(to + name + kProductScale, std::move(scales), {count});
  };
  stack(names.gate, "gate_exps");
  stack(names.up, "up_exps");
  stack(names.down, "down_exps");
}

void add_transposed_experts(CheckpointTensors& tensors, int64_t layer, const std::string& in) {
  const auto transposed = [&](const char* part) {
    const std::string name = layer_name(layer, in) + "." + part;
    const std::array<int64_t, kMaxDims> shape = tensors.shape_of(name);
    return tensors.view(name, {shape[0], shape[1], shape[2]}).swapped(0, 1);
  };
  const std::string to = fmt::format("blk.{}.ffn_", layer);
  const TensorView both = transposed("gate_up_proj");
  const int64_t width = both.shape[1] / 2;
  tensors.put(to + "gate_exps.weight", both.sliced(1, 0, width));
  tensors.put(to + "up_exps.weight", both.sliced(1, width, width));
  tensors.put(to + "down_exps.weight", transposed("down_proj"));
}

int64_t map_expert_counts(CheckpointMap& m) {
  const char* const name = m.config.has("num_experts") ? "num_experts" : "num_local_experts";
  const int64_t experts = m.config.need_int(name, 1, 65536);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  return experts;
}

namespace {

/// Layers without experts come first: mlp_layer_types, or else first_k_dense_replace.
int64_t leading_dense_layers(CheckpointMap& m) {
  const std::vector<std::string>* const kinds = m.config.get_strings("mlp_layer_types");
  int64_t dense = 0;
  if (kinds != nullptr) {
    while (dense < std::ssize(*kinds) && (*kinds)[static_cast<size_t>(dense)] == "dense") ++dense;
    const auto sparse = std::count(kinds->begin() + dense, kinds->end(), "sparse");
    m.config.require(
        std::ssize(*kinds) == m.own_layer_count() && dense + sparse == m.own_layer_count(),
        "these mlp_layer_types");
  }
  if (kinds != nullptr) return dense;
  return m.config.get_int("first_k_dense_replace", 0, 0, m.layer_count());
}

}  // namespace

void map_deepseek_experts(CheckpointMap& m, DeepseekRouting routing, const ExpertNames& names) {
  const bool second = routing == DeepseekRouting::v2;
  const int64_t experts = m.config.need_int("n_routed_experts", 1, 65536);
  const int64_t dense = leading_dense_layers(m);
  m.config.require(m.config.get_int("moe_layer_freq", 1, 1, 1 << 20) == 1, "this moe_layer_freq");
  m.keys.set_int("leading_dense_block_count", dense);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("moe_intermediate_size", 1, 1 << 20));
  m.keys.set_int("expert_shared_count", m.config.get_int("n_shared_experts", 0, 0, 1024));
  m.keys.set_float("expert_weights_scale", m.config.get_float("routed_scaling_factor", 1.0));
  m.keys.set_bool("expert_weights_norm", m.config.get_bool("norm_topk_prob", !second));
  std::string scoring =
      m.config.get_string("scoring_func", routing == DeepseekRouting::v3 ? "sigmoid" : "softmax");
  if (scoring == "noaux_tc") scoring = "sigmoid";  // dots.llm1 has the method under this key
  m.config.require(scoring == "sigmoid" || scoring == "softmax", "this scoring_func");
  m.keys.set_int("expert_gating_func", scoring == "sigmoid" ? 2 : 1);
  const std::string choice = m.config.get_string("topk_method", second ? "greedy" : "noaux_tc");
  m.config.require(choice == "noaux_tc" || choice == "greedy" || choice == "group_limited_greedy",
                   "this topk_method");
  if (const int64_t groups = m.config.get_int("n_group", 0, 0, experts);
      groups > 0 && choice != "greedy") {
    m.config.require(groups == 1 || scoring == "sigmoid" || choice != "noaux_tc",
                     "this topk_method with softmax and groups of experts");
    m.keys.set_int("expert_group_count", groups);
    m.keys.set_int("expert_group_used_count", m.config.need_int("topk_group", 1, groups));
  }
  m.layers({{"mlp.gate", "ffn_gate_inp"},
            {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
            {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
            {"mlp.shared_experts.down_proj", "ffn_down_shexp"}});
  for (int64_t i = dense; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "mlp.gate.e_score_correction_bias"),
                   block_name(i, "exp_probs_b.bias"));
    add_experts(m.tensors, i, "mlp.experts", experts, names);
  }
  // Layers that predict further tokens, but without the tensors of such, or too many.
  const int64_t all = m.config.get_int("num_hidden_layers", 0, 0, 1024) +
                      m.config.get_int("num_nextn_predict_layers", 0, 0, 64);
  for (int64_t i = m.layer_count(); i < all; ++i) m.tensors.ignore_prefix(layer_name(i, ""));
}

}  // namespace infer
