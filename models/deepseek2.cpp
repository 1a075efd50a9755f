// DeepSeek-V2, V2-Lite, V3, R1, GLM-4.7-Flash, Mistral 4 and others of their build: multi-head
// latent attention, whose keys and values are projections of one small vector a token; experts
// chosen within the best groups, beside shared ones that every token takes; leading layers without
// experts; YaRN. DeepSeek-AI 2024 (V2: attention in section 2.1, experts in 2.2; V3: routing
// in 2.1.2). Queries of Mistral 4 grow with the logarithm of the position. DeepSeek-V3.2 and GLM-5
// choose the tokens that a query sees once there are more than some thousands; here it sees all of
// them.
//
// Files hold the up-projection of keys and values apart and by head ("attn_k_b" transposed,
// "attn_v_b"), or as one matrix ("attn_kv_b", files before April 2025). In the first case the key
// projection is moved over to the query (V2, appendix C): every head attends to the latent vectors
// themselves, which are all that the cache stores. In the second keys and values are written out.
#include "engine/core/log.h"
#include "engine/core/portable_math.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"

#include <algorithm>
#include <cmath>

namespace infer {
namespace {

constexpr const char* kMistral = "mistral4";
/// Epsilon of the norms attn_q_a_norm and attn_kv_a_norm, whatever the file gives for the other
/// norms: as in transformers. llama.cpp uses the file's for all.
constexpr float kInnerEps = 1e-6f;

class LatentModel final : public DecoderModel {
 public:
  explicit LatentModel(HparamReader& r) : DecoderModel(r, op::Rope::Style::interleaved) {
    read_attention(r);
    read_temperature(r);
    read_experts(r);
    const int64_t seen = r.get_int("attention.indexer.top_k", 0, 0, INT32_MAX);
    if (seen > 0 && params.context > seen) {
      log(LogLevel::warning,
          "{}: each query of {} sees {} tokens that it chooses; here it sees all of them, which "
          "differs in longer texts",
          r.metadata().source(), info_.architecture, seen);
    }
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const auto name = [&](const char* part) { return block_name(layer, part); };
    ValueId q = kNoValue;
    if (q_latent_ > 0) {
      q = m.rms_norm(m.linear(x, name("attn_q_a"), q_latent_), name("attn_q_a_norm.weight"),
                     kInnerEps);
      q = m.linear(q, name("attn_q_b"), params.heads * key_);
    } else {
      q = m.linear(x, name("attn_q"), params.heads * key_);
    }
    q = m.g.split_heads(q, params.heads);  // [nope + rope, heads, rows]
    ValueId q_nope = m.g.slice(q, 0, nope_);
    ValueId q_rope = m.g.slice(q, nope_, rope_);
    if (grows_) q_nope = m.rope(q_nope, op::Rope::Style::interleaved, kStill);
    q_rope = m.rope(q_rope, op::Rope::Style::interleaved, grows_ ? kTurned : 0);

    const ValueId kv = m.linear(x, name("attn_kv_a_mqa"), latent_ + rope_);
    const ValueId latent =
        m.rms_norm(m.g.slice(kv, 0, latent_), name("attn_kv_a_norm.weight"), kInnerEps);
    const ValueId k_rope = m.rope(m.g.slice(kv, latent_, rope_), op::Rope::Style::interleaved);

    const op::Attention attention_params{attention[static_cast<size_t>(layer)].cache, scale_};
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
    // The converter writes a tenth of mscale_all_dim. The released models have mscale equal to it,
    // which leaves cos and sin as they are and puts the magnitude, squared, on the scores.
    const double multiplier = r.get_float("rope.scaling.yarn_log_multiplier", 0.0);
    double magnitude = 1.0;
    if (rope.yarn && multiplier != 0.0) {
      rope.magnitude = r.get_float("rope.scaling.attn_factor", 1.0);
      magnitude = std::max(1.0, 1.0 - multiplier * portable::log(rope.position_scale));
    }
    scale_ = static_cast<float>(magnitude * magnitude / std::sqrt(static_cast<double>(key_)));
    KvLayerShape shape{static_cast<int32_t>(params.heads), static_cast<int32_t>(key_),
                       static_cast<int32_t>(value_)};
    if (absorbed_) {
      shape = {1, static_cast<int32_t>(latent_ + rope_), static_cast<int32_t>(latent_)};
      shape.v_in_k = true;
    }
    for (KvLayerShape& layer : info_.kv_layers) {
      shape.layer = layer.layer;
      layer = shape;
    }
  }

  /// Two further kinds of RoPE for queries that grow: one turns, one does not.
  void read_temperature(HparamReader& r) {
    RopeSpec queries = info_.ropes[0];
    queries.temperature = r.get_float("attention.temperature_scale", 0.0);
    grows_ = queries.temperature != 0;
    if (!grows_) return;
    const int64_t original =
        r.get_int("rope.scaling.original_context_length", params.context, 1, kMaxContext);
    queries.temperature_length =
        static_cast<double>(r.get_int("attention.temperature_length", original, 1, kMaxContext));
    if (nope_ % 2 != 0) {
      r.set_error(error(StatusCode::unsupported,
                        "{}: attention.temperature_scale: expected an even number of elements that "
                        "RoPE leaves alone, found {}",
                        r.metadata().source(), nope_));
    }
    info_.ropes.push_back(queries);
    queries.pairs = static_cast<int32_t>(nope_ / 2);
    queries.turns = false;
    queries.magnitude = 1.0;
    queries.factors = -1;
    info_.ropes.push_back(queries);
  }

  void read_experts(HparamReader& r) {
    if (params.experts == 0) return;
    // Files that do not say: a bias on the choice came with V3's sigmoid.
    const std::string bias = block_name(params.layers - 1, "exp_probs_b.bias");
    op::MoeRoute& route = experts.route;
    route = read_route(r, params, weight_index(r.source(), bias) >= 0 ? 2 : 1,
                       info_.architecture == kMistral);
    route.group_best = route.gating == op::MoeRoute::Gating::softmax ? 1 : 2;  // V2 and V3 differ
    experts.shared_width = r.get_int("expert_shared_count", 0, 0, 1024) * experts.width;
  }

  static constexpr int32_t kTurned = 1;  ///< kinds of RoPE
  static constexpr int32_t kStill = 2;

  bool grows_ = false;     ///< queries are scaled by their position
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

Result<std::unique_ptr<Model>> create_head(const WeightSource& source, int64_t which) {
  HparamReader r(source, HparamReader::Part::head, which);
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
  m.keys.set_int("rope.dimension_count", rope);  // partial_rotary_factor is of the whole head
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

struct Checkpoint {
  std::string_view name;  ///< of the class
  const char* architecture;
  DeepseekRouting routing;
};

constexpr Checkpoint kFamilies[] = {
    {"DeepseekV2ForCausalLM", "deepseek2", DeepseekRouting::v2},
    {"DeepseekV3ForCausalLM", "deepseek2", DeepseekRouting::v3},
    {"Glm4MoeLiteForCausalLM", "deepseek2", DeepseekRouting::v3},
    {"Mistral4ForCausalLM", kMistral, DeepseekRouting::mistral},
    {"DeepseekV32ForCausalLM", "deepseek32", DeepseekRouting::v3},
    {"GlmMoeDsaForCausalLM", "glm-dsa", DeepseekRouting::v3},
};

void map(CheckpointMap& m) {
  const Checkpoint& family =
      *std::ranges::find(kFamilies, m.config.checkpoint(), &Checkpoint::name);
  m.begin({.architecture = family.architecture,
           .rope_width = "qk_rope_head_dim",
           .yarn_on_scores = true});
  m.add_deepseek_heads();
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"}, {"post_attention_layernorm", "ffn_norm"}});
  map_latent(m);
  m.feed_forward();
  map_deepseek_experts(m, family.routing);
  if (const int64_t seen = m.config.get_int("index_topk", 0, 0, INT32_MAX); seen > 0) {
    m.keys.set_int("attention.indexer.top_k", seen);
  }
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.ignore_prefix(layer_name(i, "self_attn.indexer."));
  }
  if (const double beta = m.config.get_float(rope_section(m.config) + "llama_4_scaling_beta", 0.0);
      beta != 0) {
    m.keys.set_float("attention.temperature_scale", beta);
  }
}

}  // namespace

const ArchDef& deepseek2_arch() {
  static constexpr const char* kNames[] = {"deepseek2", "deepseek32", "glm-dsa", kMistral};
  static constexpr const char* kCheckpoints[] = {"DeepseekV2ForCausalLM",  "DeepseekV3ForCausalLM",
                                                 "Glm4MoeLiteForCausalLM", "Mistral4ForCausalLM",
                                                 "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map, create_head};
  return def;
}

}  // namespace infer
