// DeepSeek-V2, V2-Lite, V3, R1 and others of their build: multi-head latent attention, whose keys
// and values are projections of one small vector a token; experts chosen within the best groups,
// beside shared ones that every token takes; leading layers without experts; YaRN.
// DeepSeek-AI 2024 (V2: attention in section 2.1, experts in 2.2; V3: routing in 2.1.2).
//
// Files hold the up-projection of keys and values apart and by head ("attn_k_b" transposed,
// "attn_v_b"), or as one matrix ("attn_kv_b", files before April 2025). In the first case the key
// projection is moved over to the query (V2, appendix C): every head attends to the latent vectors
// themselves, which are all that the cache stores. In the second keys and values are written out.
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"

#include <algorithm>
#include <cmath>

namespace infer {
namespace {

class LatentModel final : public DecoderModel {
 public:
  explicit LatentModel(HparamReader& r) : DecoderModel(r, op::Rope::Style::interleaved) {
    read_attention(r);
    read_experts(r);
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const auto name = [&](const char* part) { return block_name(layer, part); };
    ValueId q = kNoValue;
    if (q_latent_ > 0) {
      q = m.rms_norm(m.linear(x, name("attn_q_a"), q_latent_), name("attn_q_a_norm.weight"),
                     params.eps);
      q = m.linear(q, name("attn_q_b"), params.heads * key_);
    } else {
      q = m.linear(x, name("attn_q"), params.heads * key_);
    }
    q = m.g.split_heads(q, params.heads);  // [nope + rope, heads, rows]
    ValueId q_nope = m.g.slice(q, 0, nope_);
    const ValueId q_rope = m.rope(m.g.slice(q, nope_, rope_), op::Rope::Style::interleaved);

    const ValueId kv = m.linear(x, name("attn_kv_a_mqa"), latent_ + rope_);
    const ValueId latent =
        m.rms_norm(m.g.slice(kv, 0, latent_), name("attn_kv_a_norm.weight"), params.eps);
    const ValueId k_rope = m.rope(m.g.slice(kv, latent_, rope_), op::Rope::Style::interleaved);

    const op::Attention attention_params{static_cast<int32_t>(layer), scale_};
    ValueId mixed = kNoValue;
    if (absorbed_) {
      const ValueId k_b = m.weight(name("attn_k_b.weight"), {nope_, latent_, params.heads});
      const ValueId v_b = m.weight(name("attn_v_b.weight"), {latent_, value_, params.heads});
      q_nope = m.g.add(op::HeadMatmul{}, {q_nope, k_b});            // [latent, heads, rows]
      const ValueId key = m.g.add(op::Concat{}, {latent, k_rope});  // [latent + rope, 1, rows]
      mixed = m.attention(m.g.add(op::Concat{}, {q_nope, q_rope}), key, m.g.slice(key, 0, latent_),
                          attention_params);
      mixed = m.g.add(op::HeadMatmul{}, {m.g.split_heads(mixed, params.heads), v_b});
      mixed = m.g.merge_heads(mixed);
    } else {
      const ValueId both = m.g.split_heads(
          m.linear(latent, name("attn_kv_b"), params.heads * (nope_ + value_)), params.heads);
      const ValueId key = m.g.add(op::Concat{}, {m.g.slice(both, 0, nope_), k_rope});
      mixed = m.attention(m.g.add(op::Concat{}, {q_nope, q_rope}), key,
                          m.g.slice(both, nope_, value_), attention_params);
    }
    return m.linear(mixed, name("attn_output"), params.embedding);
  }

 private:
  void read_attention(HparamReader& r) {
    constexpr int64_t kMaxWidth = 1 << 20;
    absorbed_ = weight_index(r.source(), "blk.0.attn_k_b.weight") >= 0;
    q_latent_ = r.get_int("attention.q_lora_rank", 0, 0, kMaxWidth);
    latent_ = r.need_int("attention.kv_lora_rank", 1, kMaxWidth);
    // In files with split projections key_length describes what is cached, and _mla a head.
    key_ = r.get_int("attention.key_length_mla", params.head_dim, 1, kMaxWidth);
    value_ = r.get_int("attention.value_length_mla", params.value_dim, 1, kMaxWidth);
    RopeSpec& rope = info_.ropes[0];
    rope_ = 2 * rope.pairs;
    nope_ = key_ - rope_;
    if (nope_ < 1) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: expected a head of more than its {} rotated elements, found {}",
                        r.metadata().source(), rope_, key_));
    }
    if (r.has("attention.temperature_scale")) {
      r.set_error(error(StatusCode::unsupported,
                        "{}: scores that grow with the position (attention.temperature_scale) are "
                        "not supported",
                        r.metadata().source()));
    }
    // The converter writes a tenth of mscale_all_dim. The released models have mscale equal to it,
    // which leaves cos and sin as they are and puts the magnitude, squared, on the scores.
    const double multiplier = r.get_float("rope.scaling.yarn_log_multiplier", 0.0);
    double magnitude = 1.0;
    if (rope.yarn && multiplier != 0.0) {
      rope.magnitude = r.get_float("rope.scaling.attn_factor", 1.0);
      magnitude = std::max(1.0, 1.0 - multiplier * std::log(rope.position_scale));
    }
    scale_ = static_cast<float>(magnitude * magnitude / std::sqrt(static_cast<double>(key_)));
    KvLayerShape shape{static_cast<int32_t>(params.heads), static_cast<int32_t>(key_),
                       static_cast<int32_t>(value_)};
    if (absorbed_) {
      shape = {1, static_cast<int32_t>(latent_ + rope_), static_cast<int32_t>(latent_)};
      shape.v_in_k = true;
    }
    info_.kv_layers.assign(info_.kv_layers.size(), shape);
  }

  void read_experts(HparamReader& r) {
    if (params.experts == 0) return;
    op::MoeRoute& route = experts.route;
    // Files that do not say: a bias on the choice came with V3's sigmoid.
    const std::string bias = block_name(params.layers - 1, "exp_probs_b.bias");
    const int64_t absent = weight_index(r.source(), bias) >= 0 ? 2 : 1;
    const int64_t gating = r.get_int("expert_gating_func", absent, 0, 3);
    using Gating = op::MoeRoute::Gating;
    route.gating = gating == 2   ? Gating::sigmoid
                   : gating == 3 ? Gating::softmax_of_chosen
                                 : Gating::softmax;
    route.group_best = route.gating == Gating::softmax ? 1 : 2;  // V2 and V3 differ here
    route.normalise = r.get_bool("expert_weights_norm", false);
    route.scale = static_cast<float>(r.get_float("expert_weights_scale", 1.0));
    if (route.scale == 0.0f) route.scale = 1.0f;  // how files say "none"
    const int64_t groups = std::max<int64_t>(1, r.get_int("expert_group_count", 1, 0, 65536));
    const int64_t groups_used =
        std::max<int64_t>(1, r.get_int("expert_group_used_count", groups, 0, groups));
    if (params.experts % groups != 0 ||
        params.experts_used > params.experts / groups * groups_used) {
      r.set_error(
          error(StatusCode::bad_file, "{}: {} of {} experts cannot be chosen from {} of {} groups",
                r.metadata().source(), params.experts_used, params.experts, groups_used, groups));
    }
    route.groups = static_cast<int32_t>(groups);
    route.groups_used = static_cast<int32_t>(groups_used);
    experts.shared_width = r.get_int("expert_shared_count", 0, 0, 1024) * experts.width;
  }

  bool absorbed_ = false;  ///< queries meet the latent vectors themselves
  int64_t q_latent_ = 0;   ///< 0: queries are projected directly
  int64_t latent_ = 0;
  int64_t key_ = 0;    ///< elements of a head's key: nope_ + rope_
  int64_t value_ = 0;  ///< elements of a head's value
  int64_t rope_ = 0;
  int64_t nope_ = 0;
  float scale_ = 0;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<LatentModel>(r), r);
}

/// Keys and values of every head apart, and the keys transposed: the form that lets queries meet
/// the latent vectors.
void map_latent(CheckpointMap& m) {
  constexpr int64_t kMaxWidth = 1 << 20;
  const int64_t latent = m.config.need_int("kv_lora_rank", 1, kMaxWidth);
  const int64_t nope = m.config.need_int("qk_nope_head_dim", 1, kMaxWidth);
  const int64_t rope = m.config.need_int("qk_rope_head_dim", 1, kMaxWidth);
  const int64_t value = m.config.need_int("v_head_dim", 1, kMaxWidth);
  if (const int64_t rank = m.config.get_int("q_lora_rank", 0, 0, kMaxWidth); rank > 0) {
    m.keys.set_int("attention.q_lora_rank", rank);
  }
  m.keys.set_int("attention.kv_lora_rank", latent);
  m.keys.set_int("attention.head_count_kv", 1);
  // What is cached, then what a head has.
  m.keys.set_int("attention.key_length", latent + rope);
  m.keys.set_int("attention.value_length", latent);
  m.keys.set_int("attention.key_length_mla", nope + rope);
  m.keys.set_int("attention.value_length_mla", value);
  m.layers({{"self_attn.q_proj", "attn_q"},
            {"self_attn.q_a_proj", "attn_q_a"},
            {"self_attn.q_a_layernorm", "attn_q_a_norm"},
            {"self_attn.q_b_proj", "attn_q_b"},
            {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
            {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
            {"self_attn.o_proj", "attn_output"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    const TensorView both = m.tensors.view(layer_name(i, "self_attn.kv_b_proj.weight"),
                                           {latent, nope + value, m.head_count()});
    m.tensors.put(block_name(i, "attn_k_b.weight"), both.sliced(1, 0, nope).swapped(0, 1));
    m.tensors.put(block_name(i, "attn_v_b.weight"), both.sliced(1, nope, value));
  }
  const std::string section = rope_section(m.config);
  const double multiplier = m.config.get_float(section + "mscale_all_dim", 0.0);
  m.config.require(m.config.get_float(section + "mscale", multiplier) == multiplier,
                   "an mscale other than mscale_all_dim");
  m.config.require(m.config.get_bool("rope_interleave", true), "rope_interleave false");
  if (multiplier != 0) m.keys.set_float("rope.scaling.yarn_log_multiplier", 0.1 * multiplier);
}

void map_experts(CheckpointMap& m, bool third) {
  const int64_t experts = m.config.need_int("n_routed_experts", 1, 65536);
  const int64_t dense = m.config.get_int("first_k_dense_replace", 0, 0, m.layer_count());
  m.config.require(m.config.get_int("moe_layer_freq", 1, 1, 1 << 20) == 1, "this moe_layer_freq");
  m.keys.set_int("leading_dense_block_count", dense);
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", m.config.need_int("num_experts_per_tok", 1, experts));
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("moe_intermediate_size", 1, 1 << 20));
  m.keys.set_int("expert_shared_count", m.config.get_int("n_shared_experts", 0, 0, 1024));
  m.keys.set_float("expert_weights_scale", m.config.get_float("routed_scaling_factor", 1.0));
  m.keys.set_bool("expert_weights_norm", m.config.get_bool("norm_topk_prob", third));
  const std::string scoring = m.config.get_string("scoring_func", third ? "sigmoid" : "softmax");
  m.config.require(scoring == "sigmoid" || scoring == "softmax", "this scoring_func");
  m.keys.set_int("expert_gating_func", scoring == "sigmoid" ? 2 : 1);
  const std::string choice = m.config.get_string("topk_method", third ? "noaux_tc" : "greedy");
  m.config.require(choice == "noaux_tc" || choice == "greedy" || choice == "group_limited_greedy",
                   "this topk_method");
  if (const int64_t groups = m.config.get_int("n_group", 0, 0, experts);
      groups > 0 && choice != "greedy") {
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
    add_experts(m.tensors, i, "mlp.experts", experts);
  }
}

void map(CheckpointMap& m) {
  m.begin({.architecture = "deepseek2", .rope_width = "qk_rope_head_dim", .yarn_on_scores = true});
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  map_latent(m);
  m.feed_forward();
  map_experts(m, m.config.checkpoint() == "DeepseekV3ForCausalLM");
  // Layers that predict further tokens, and hold a second embedding, are not used.
  for (int64_t i = 0; i < m.config.get_int("num_nextn_predict_layers", 0, 0, 64); ++i) {
    m.tensors.ignore_prefix(layer_name(m.layer_count() + i, ""));
  }
}

}  // namespace

const ArchDef& deepseek2_arch() {
  static constexpr const char* kNames[] = {"deepseek2"};
  static constexpr const char* kCheckpoints[] = {"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
