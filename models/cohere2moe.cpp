// Cohere 2 with experts: the norm and the windows of Command R7B, or an RMSNorm where the file says
// so; behind some dense layers, which have RoPE in any case, experts chosen by sigmoid or by
// softmax over the chosen ones. What they make is averaged with what a shared one makes. Cohere
// 2026.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/decoder.h"

#include <algorithm>

namespace infer {
namespace {

constexpr int64_t kPeriod = 4;  // of the layers that see everything

class Cohere2Moe final : public DecoderModel {
 public:
  explicit Cohere2Moe(HparamReader& r) : DecoderModel(r, op::Rope::Style::interleaved) {
    layer_norms = !r.has("attention.layer_norm_rms_epsilon");
    if (layer_norms) params.eps = r.epsilon("attention.layer_norm_epsilon");
    parallel = true;
    logit_scale = static_cast<float>(r.get_float("logit_scale", 1.0));
    if (is_head()) {
      read_head_window(r);
    } else {
      set_windows_with_rope(r, kPeriod);
    }
    const int64_t dense = r.get_int("leading_dense_block_count", 0, 0, params.layers);
    for (AttentionBlock& block : attention) block.rotate = block.rotate || block.layer < dense;
    experts.route = read_route(r, params, 2, false);
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const ValueId sum = DecoderModel::feed_forward(m, x, layer);
    const bool shared = m.has(block_name(layer, "ffn_up_shexp.weight"));
    return shared ? m.g.add(op::Scale{0.5f}, {sum}) : sum;
  }

 private:
  /// A layer that predicts further tokens has RoPE in any case. It has a window if the file says
  /// so, which may say nothing of it.
  void read_head_window(HparamReader& r) {
    const std::vector<bool> sliding = r.sliding_layers(params.first_layer, kPeriod);
    const auto layer = static_cast<size_t>(params.first_layer);
    if (layer >= sliding.size() || !sliding[layer]) return;
    set_window(params.first_layer,
               static_cast<int32_t>(r.need_int("attention.sliding_window", 1, INT32_MAX)));
  }
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Cohere2Moe>(r), r);
}

Result<std::unique_ptr<Model>> create_head(const WeightSource& source, int64_t which) {
  HparamReader r(source, HparamReader::Part::head, which);
  return DecoderModel::finish(std::make_unique<Cohere2Moe>(r), r);
}

/// Dense layers come first: mlp_layer_types, or else first_k_dense_replace.
int64_t dense_layers(CheckpointMap& m) {
  const std::vector<std::string>* kinds = m.config.get_strings("mlp_layer_types");
  if (kinds == nullptr) return m.config.get_int("first_k_dense_replace", 0, 0, m.layer_count());
  const auto last = std::ranges::find(*kinds, "sparse");
  m.config.require(std::ssize(*kinds) == m.layer_count() &&
                       std::count(last, kinds->end(), "sparse") == kinds->end() - last,
                   "these mlp_layer_types");
  return std::min<int64_t>(last - kinds->begin(), m.layer_count());
}

/// Which layers have a window: layer_types, or else all but every P-th one behind the dense ones.
void map_windows(CheckpointMap& m, int64_t dense) {
  const std::vector<std::string>* kinds = m.config.get_strings("layer_types");
  const int64_t period = m.config.get_int("sliding_window_pattern", kPeriod, 1, INT32_MAX);
  std::vector<bool> sliding;
  bool known = kinds == nullptr || std::ssize(*kinds) == m.layer_count();
  for (int64_t i = 0; i < m.layer_count() && known; ++i) {
    if (kinds == nullptr) {
      sliding.push_back(i >= dense && (i - dense + 1) % period != 0);
      continue;
    }
    const std::string& kind = (*kinds)[static_cast<size_t>(i)];
    known = kind == "sliding_attention" || kind == "full_attention";
    sliding.push_back(kind == "sliding_attention");
  }
  m.config.require(known, "these layer_types");
  m.config.require(
      dense == 0 || m.config.get_int("prefix_dense_sliding_window_pattern", 1, 1, 1024) == 1,
      "this prefix_dense_sliding_window_pattern");
  m.keys.set_int("attention.sliding_window",
                 m.config.get_int("sliding_window", 4096, 1, INT32_MAX));
  m.keys.set_flags("attention.sliding_window_pattern", sliding);
}

void map_experts(CheckpointMap& m, int64_t dense) {
  const int64_t experts = map_expert_counts(m);
  const int64_t width = m.config.need_int("intermediate_size", 1, kMaxWidth);
  const int64_t shared = m.config.get_int("num_shared_experts", 0, 0, 1024);
  const std::string choice = m.config.get_string("expert_selection_fn", "softmax");
  m.config.require(choice == "softmax" || choice == "sigmoid", "this expert_selection_fn");
  m.keys.set_int("expert_feed_forward_length", width);
  m.keys.set_int("expert_gating_func", choice == "sigmoid" ? 2 : 3);
  m.keys.set_bool("expert_weights_norm",
                  choice == "sigmoid" && m.config.get_bool("norm_topk_prob", true));
  m.keys.set_int("leading_dense_block_count", dense);
  if (dense > 0) {
    m.keys.set_int("feed_forward_length",
                   m.config.get_int("prefix_dense_intermediate_size", width, 1, kMaxWidth));
  }
  if (shared > 0) {
    m.config.require(
        m.config.get_string("shared_expert_combination_strategy", "average") == "average",
        "this shared_expert_combination_strategy");
    m.keys.set_int("expert_shared_count", shared);
    m.keys.set_int("expert_shared_feed_forward_length", shared * width);
  }
  m.layers({{"mlp.gate", "ffn_gate_inp"},
            {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
            {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
            {"mlp.shared_experts.down_proj", "ffn_down_shexp"}});
  for (int64_t i = dense; i < m.layer_count(); ++i) {
    add_experts(m.tensors, i, "mlp.experts", experts);
  }
}

void map(CheckpointMap& m) {
  m.config.assume("tie_word_embeddings", true);
  m.begin({.architecture = "cohere2moe", .layer_norms = !m.config.has("rms_norm_eps")});
  m.keys.set_float("logit_scale", m.config.get_float("logit_scale", 0.0625));
  const int64_t dense = dense_layers(m);
  map_windows(m, dense);
  m.add_deepseek_heads();
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}});
  m.attention();
  m.feed_forward();
  map_experts(m, dense);
  // Layers that predict further tokens, but without the tensors of such, or too many.
  const int64_t all = m.config.get_int("num_hidden_layers", 0, 0, 1024) +
                      m.config.get_int("num_nextn_predict_layers", 0, 0, 64);
  for (int64_t i = m.layer_count(); i < all; ++i) m.tensors.ignore_prefix(layer_name(i, ""));
}

}  // namespace

const ArchDef& cohere2moe_arch() {
  static constexpr const char* kNames[] = {"cohere2moe"};
  static constexpr const char* kCheckpoints[] = {"Cohere2MoeForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map, create_head};
  return def;
}

}  // namespace infer
