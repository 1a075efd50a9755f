// Step 3.5 and 3.7 Flash, text only: layers with a window and layers that see all, each kind with a
// number of heads and a RoPE of its own; an RMSNorm on every q and k head; a gate for each head;
// experts chosen by sigmoid with a bias on the choice beside a shared one; in some layers limits on
// what SwiGLU multiplies. StepFun 2026.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/limited_decoder.h"

#include <algorithm>
#include <tuple>

namespace infer {
namespace {

class Step35 final : public LimitedModel {
 public:
  explicit Step35(HparamReader& r) : LimitedModel(r, op::Rope::Style::half_split) {
    read_ropes(r);
    mutable_info().takes_unnormed = is_head();
    const auto window = static_cast<int32_t>(r.need_int("attention.sliding_window", 1, INT32_MAX));
    const std::vector<bool> sliding = r.sliding_layers(params.layers, 0);
    for (int64_t layer = params.first_layer; layer < params.layers; ++layer) {
      AttentionBlock& block = attention[static_cast<size_t>(layer)];
      if (has(r, layer, "attn_q_norm")) block.qk_norm = AttentionBlock::QkNorm::per_head;
      if (has(r, layer, "attn_gate")) block.gate = AttentionBlock::Gate::of_heads;
      if (!sliding[static_cast<size_t>(layer)]) continue;
      block.rope = 1;
      set_window(layer, window);
    }
    experts.route = read_route(r, params, 2, true);
    read_limits(r);
  }

 private:
  static bool has(const HparamReader& r, int64_t layer, const char* part) {
    return r.source().find(block_name(layer, part) + ".weight") != nullptr;
  }

  /// Files say how many elements are rotated where there is a window; elsewhere it is half of them.
  /// "rope_freqs" has factors for all, and is for the layers without a window.
  void read_ropes(HparamReader& r) {
    RopeSpec& whole = mutable_info().ropes[0];
    RopeSpec windowed = unscaled(whole, r.get_float("rope.freq_base_swa", 10000.0));
    const int64_t dims =
        r.get_int("rope.dimension_count_swa", 2 * windowed.pairs, 2, params.head_dim);
    if (dims % 2 != 0 || whole.pairs % 2 != 0) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: rope.dimension_count and rope.dimension_count_swa: expected a "
                        "multiple of 4 and an even number, found {} and {}",
                        r.metadata().source(), 2 * whole.pairs, dims));
    }
    windowed.pairs = static_cast<int32_t>(dims / 2);
    whole.unused_factors = whole.pairs - whole.pairs / 2;
    whole.pairs /= 2;
    mutable_info().ropes.push_back(windowed);
  }
};

Result<std::unique_ptr<Model>> read(HparamReader r) {
  auto model = std::make_unique<Step35>(r);
  return DecoderModel::finish(std::move(model), r);
}

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  return read(HparamReader(source));
}

Result<std::unique_ptr<Model>> create_head(const WeightSource& source, int64_t which) {
  return read(HparamReader(source, HparamReader::Part::head, which));
}

/// By layer, those that predict further tokens included where the configuration says them: whether
/// it has a window.
std::vector<bool> sliding_layers(CheckpointMap& m) {
  std::vector<bool> sliding;
  const std::vector<std::string>* kinds = m.config.get_strings("layer_types");
  const std::vector<std::string>* further = m.config.get_strings("mtp_layer_types");
  bool known = true;
  for (const std::vector<std::string>* list : {kinds, further}) {
    if (list == nullptr) continue;
    for (const std::string& kind : *list) {
      known = known && (kind == "sliding_attention" || kind == "full_attention");
      sliding.push_back(kind == "sliding_attention");
    }
  }
  const int64_t layers = m.config.need_int("num_hidden_layers", 1, 1024);
  m.config.require(known && (sliding.empty() || std::ssize(sliding) >= layers),
                   "these layer_types");
  return sliding;
}

/// Published configurations have some keys under names of their own, and a base and a rotated share
/// of RoPE for each layer. Those of layers with a window get keys beginning with "local_".
void rename_keys(CheckpointMap& m, const std::vector<bool>& sliding) {
  for (const auto& [from, to] : {std::pair{"num_attention_groups", "num_key_value_heads"},
                                 {"moe_num_experts", "n_routed_experts"},
                                 {"moe_top_k", "num_experts_per_tok"},
                                 {"share_expert_dims", "share_expert_dim"}}) {
    if (m.config.has(from)) m.config.assume(to, m.config.need_int(from, 1, kMaxWidth));
  }
  for (const auto& [list, key, of_window] :
       {std::tuple{"rope_theta", "rope_theta", "local_rope_theta"},
        {"partial_rotary_factors", "partial_rotary_factor", "local_partial_rotary_factor"}}) {
    const std::vector<float> values = m.config.get_floats(list);
    if (values.size() < 2) continue;
    for (size_t i = 0; i < std::min(values.size(), sliding.size()); ++i) {
      m.config.replace(sliding[i] ? of_window : key, static_cast<double>(values[i]));
    }
  }
}

void map_experts(CheckpointMap& m) {
  const int64_t experts = m.config.need_int("n_routed_experts", 1, 65536);
  m.config.require(m.config.get_string("moe_router_activation", "sigmoid") == "sigmoid",
                   "this moe_router_activation");
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("moe_intermediate_size", 1, kMaxWidth));
  m.keys.set_int("expert_shared_feed_forward_length",
                 m.config.need_int("share_expert_dim", 1, kMaxWidth));
  m.keys.set_int("expert_gating_func", 2);
  m.keys.set_bool("expert_weights_norm", m.config.get_bool("norm_expert_weight", true));
  m.keys.set_float("expert_weights_scale", m.config.get_float("moe_router_scaling_factor", 1.0));
  m.layers({{"moe.gate", "ffn_gate_inp"},
            {"share_expert.gate_proj", "ffn_gate_shexp"},
            {"share_expert.up_proj", "ffn_up_shexp"},
            {"share_expert.down_proj", "ffn_down_shexp"}});
  int64_t dense = 0;
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    if (!m.tensors.has(layer_name(i, "moe.gate.weight"))) {
      if (i == dense) ++dense;
      continue;
    }
    m.tensors.copy(layer_name(i, "moe.router_bias"), block_name(i, "exp_probs_b.bias"));
    add_experts(m.tensors, i, "moe", experts,
                {"gate_proj.weight", "up_proj.weight", "down_proj.weight"});
  }
  m.keys.set_int("leading_dense_block_count", dense);
  for (const auto& [from, to] : {std::pair{"swiglu_limits", "swiglu_clamp_exp"},
                                 {"swiglu_limits_shared", "swiglu_clamp_shexp"}}) {
    std::vector<float> limits = m.config.get_floats(from);
    if (limits.empty()) continue;
    limits.resize(static_cast<size_t>(m.layer_count()), 0.0f);
    m.keys.set_floats(to, std::move(limits));
  }
}

/// The layers that predict further tokens, each as one more layer.
void map_heads(CheckpointMap& m) {
  const int64_t said = m.config.get_int("num_nextn_predict_layers", 0, 0, 1024);
  for (int64_t i = 0; i < said; ++i) {
    const int64_t layer = m.layer_count();
    const std::string from = layer_name(layer, "");
    if (i == kMostNextLayers || !m.tensors.has(from + "eh_proj.weight")) break;
    m.add_head_layer();
    m.tensors.also_named(from + "transformer.shared_head.", from + "shared_head.");
    for (const auto& [part, to, change] :
         {std::tuple{"eh_proj", "eh_proj", Change::none},
          {"enorm", "enorm", Change::add_one},
          {"hnorm", "hnorm", Change::add_one},
          {"shared_head.norm", "shared_head_norm", Change::add_one},
          {"shared_head.output", "shared_head_head", Change::none}}) {
      m.tensors.copy(from + part + ".weight", fmt::format("blk.{}.nextn.{}.weight", layer, to),
                     change);
    }
  }
  for (int64_t i = 0; i < said; ++i) m.tensors.ignore_prefix(layer_name(m.layer_count() + i, ""));
}

/// Query and key-value heads of layers with and without a window.
void map_head_counts(CheckpointMap& m, const std::vector<bool>& sliding) {
  const std::string other = "attention_other_setting.";
  const int64_t heads = m.head_count();
  const int64_t kv_heads = m.config.get_int("num_key_value_heads", heads, 1, 4096);
  const int64_t in_window =
      m.config.get_int("num_sliding_attention_heads",
                       m.config.get_int(other + "num_attention_heads", heads, 1, 4096), 1, 4096);
  const int64_t kv_in_window = m.config.get_int(other + "num_attention_groups", kv_heads, 1, 4096);
  std::vector<int64_t> all;
  std::vector<int64_t> all_kv;
  for (const bool slides : sliding) {
    all.push_back(slides ? in_window : heads);
    all_kv.push_back(slides ? kv_in_window : kv_heads);
  }
  m.keys.set_ints("attention.head_count", all);
  m.keys.set_ints("attention.head_count_kv", all_kv);
}

void map_windows(CheckpointMap& m, int64_t head) {
  const std::string section = "rope_parameters.sliding_attention.";
  m.keys.set_int("attention.sliding_window", m.config.need_int("sliding_window", 1, INT32_MAX));
  m.keys.set_float(
      "rope.freq_base_swa",
      m.config.get_float(section + "rope_theta", m.config.get_float("local_rope_theta", 10000.0)));
  const double share = m.config.get_float(section + "partial_rotary_factor",
                                          m.config.get_float("local_partial_rotary_factor", 1.0));
  m.config.require(share > 0 && share <= 1, "this partial_rotary_factor of sliding_attention");
  m.keys.set_int("rope.dimension_count_swa",
                 static_cast<int64_t>(static_cast<double>(head) * share));
}

void map(CheckpointMap& m) {
  std::vector<bool> sliding = sliding_layers(m);
  rename_keys(m, sliding);
  m.config.assume("rms_norm_eps", 1e-5);
  m.begin({.architecture = "step35", .rope_of_whole_head = true});
  const int64_t head = m.config.need_int("head_dim", 1, kMaxWidth);
  m.config.require(4 * m.rope_pairs() == head, "a partial_rotary_factor other than a half");
  m.config.require(m.config.get_float("query_pre_attn_scalar", static_cast<double>(head)) ==
                       static_cast<double>(head),
                   "this query_pre_attn_scalar");
  m.config.require(m.config.get_bool("use_head_wise_attn_gate", true),
                   "use_head_wise_attn_gate false");
  map_heads(m);
  sliding.resize(static_cast<size_t>(m.layer_count()), false);
  m.keys.set_flags("attention.sliding_window_pattern", sliding);
  map_head_counts(m, sliding);
  map_windows(m, head);
  m.ends(Change::add_one);
  m.layers({{"input_layernorm", "attn_norm", Change::add_one},
            {"post_attention_layernorm", "ffn_norm", Change::add_one},
            {"self_attn.q_norm", "attn_q_norm", Change::add_one},
            {"self_attn.k_norm", "attn_k_norm", Change::add_one},
            {"self_attn.g_proj", "attn_gate"}});
  m.attention();
  m.feed_forward();
  map_experts(m);
}

}  // namespace

const ArchDef& step35_arch() {
  static constexpr const char* kNames[] = {"step35"};
  static constexpr const char* kCheckpoints[] = {"Step3p5ForCausalLM",
                                                 "Step3p7ForConditionalGeneration"};
  static const ArchDef def{kNames, create, kCheckpoints, map, create_head};
  return def;
}

}  // namespace infer
