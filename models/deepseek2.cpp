// DeepSeek-V2, V2-Lite, V3, R1, GLM-4.7-Flash, Mistral 4, Youtu and others of their build:
// multi-head latent attention; experts chosen within the best groups, beside shared ones that every
// token takes; leading layers without experts; YaRN. DeepSeek-AI 2024 (V2: attention in
// section 2.1, experts in 2.2; V3: routing in 2.1.2). Queries of Mistral 4 grow with the logarithm
// of the position. In DeepSeek-V3.2 and GLM-5 a query sees some thousands of tokens that an index
// chooses, in GLM-5.2 one that several layers share.
#include "engine/core/log.h"
#include "engine/core/portable_math.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"
#include "engine/model/latent_attention.h"

#include <algorithm>
#include <cmath>

namespace infer {
namespace {

constexpr const char* kMistral = "mistral4";
constexpr const char* kGlm = "glm-dsa";
// Of an index.
constexpr int64_t kMostChosen = 1 << 16;
constexpr int64_t kMostHeads = 1 << 16;

class LatentModel final : public DecoderModel {
 public:
  explicit LatentModel(HparamReader& r)
      : DecoderModel(r, op::Rope::Style::interleaved), block_(r, params, 0) {
    block_.set_caches(info_.kv_layers);
    read_magnitude(r);
    read_temperature(r);
    read_experts(r);
    read_index(r);
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    return latent_block(m, x, layer, block_, attention[static_cast<size_t>(layer)].cache,
                        index_.caches.empty() ? nullptr : &index_);
  }

 private:
  /// The converter writes a tenth of mscale_all_dim. The released models have mscale equal to it,
  /// which leaves cos and sin as they are and puts the magnitude, squared, on the scores.
  void read_magnitude(HparamReader& r) {
    RopeSpec& rope = info_.ropes[0];
    const double multiplier = r.get_float("rope.scaling.yarn_log_multiplier", 0.0);
    if (!rope.yarn || multiplier == 0.0) return;
    rope.magnitude = r.get_float("rope.scaling.attn_factor", 1.0) *
                     r.get_float("rope.scaling.yarn_attn_factor", 1.0);
    const double magnitude = std::max(1.0, 1.0 - multiplier * portable::log(rope.position_scale));
    block_.scale =
        static_cast<float>(magnitude * magnitude / std::sqrt(static_cast<double>(block_.key)));
  }

  /// Two further kinds of RoPE for queries that grow: one turns, one does not.
  void read_temperature(HparamReader& r) {
    RopeSpec queries = info_.ropes[0];
    queries.temperature = r.get_float("attention.temperature_scale", 0.0);
    if (queries.temperature == 0) return;
    block_.turned = 1;
    block_.still = 2;
    const int64_t original =
        r.get_int("rope.scaling.original_context_length", params.context, 1, kMaxContext);
    queries.temperature_length =
        static_cast<double>(r.get_int("attention.temperature_length", original, 1, kMaxContext));
    if (block_.nope % 2 != 0) {
      r.set_error(error(StatusCode::unsupported,
                        "{}: attention.temperature_scale: expected an even number of elements that "
                        "RoPE leaves alone, found {}",
                        r.metadata().source(), block_.nope));
    }
    info_.ropes.push_back(queries);
    queries.pairs = static_cast<int32_t>(block_.nope / 2);
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

  /// Which layers have an index. Files of GLM-5.2, which have a context of a million tokens, may
  /// not say: then layers 0 and 1 have one, and every fourth from layer 2 on.
  std::vector<bool> index_layers(HparamReader& r) const {
    std::vector<bool> has = r.flags("attention.indexer.types", params.layers);
    const bool some = info_.architecture == kGlm && params.context >= 1 << 20;
    for (int64_t layer = std::ssize(has); layer < params.layers; ++layer) {
      has.push_back(!some || layer < 2 || layer % 4 == 2);
    }
    return has;
  }

  /// Draft heads see all tokens.
  void read_index(HparamReader& r) {
    const int64_t count = r.get_int("attention.indexer.top_k", 0, 0, kMostChosen);
    if (count == 0 || is_head()) return;
    if (weight_index(r.source(), block_name(0, "indexer.attn_q_b.weight")) < 0) {
      if (params.context <= count) return;
      log(LogLevel::warning,
          "{}: each query of {} sees {} tokens that an index chooses, but the tensors of the index "
          "are missing; queries see all tokens, which differs in longer texts",
          r.metadata().source(), info_.architecture, count);
      return;
    }
    if (info_.architecture == kGlm) index_.style = op::Rope::Style::interleaved;
    std::vector<bool> has = index_layers(r);
    has.resize(static_cast<size_t>(params.layers));
    index_.read(r, has, block_.rope, info_.kv_layers);
    if (index_.caches[0] < 0 || block_.q_latent == 0) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: attention.indexer: expected an index in the first layer and "
                        "attention.q_lora_rank above 0",
                        r.metadata().source()));
    }
  }

  LatentBlock block_;
  SlotIndex index_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<LatentModel>(r), r);
}

Result<std::unique_ptr<Model>> create_head(const WeightSource& source, int64_t which) {
  HparamReader r(source, HparamReader::Part::head, which);
  return DecoderModel::finish(std::make_unique<LatentModel>(r), r);
}

struct Checkpoint {
  std::string_view name;  ///< of the class
  const char* architecture;
  DeepseekRouting routing;
  double scale = 1.0;       ///< of experts, where the configuration does not say
  int64_t index_heads = 0;  ///< likewise; 0: the family has no index
  bool dense = false;       ///< has no experts
};

constexpr Checkpoint kFamilies[] = {
    {"DeepseekV2ForCausalLM", "deepseek2", DeepseekRouting::v2},
    {"DeepseekV3ForCausalLM", "deepseek2", DeepseekRouting::v3, 2.5},
    {"Glm4MoeLiteForCausalLM", "deepseek2", DeepseekRouting::v3, 1.8},
    {"Mistral4ForCausalLM", kMistral, DeepseekRouting::mistral},
    {"DeepseekV32ForCausalLM", "deepseek32", DeepseekRouting::v3, 2.5, 64},
    {"GlmMoeDsaForCausalLM", kGlm, DeepseekRouting::v3, 2.5, 32},
    {"YoutuForCausalLM", "deepseek2", DeepseekRouting::v3, 1.0, 0, true},
};

/// Which layers have an index: "indexer_types", a pattern of the letters F and S, or every how many
/// from which one on.
std::vector<bool> with_index(CheckpointConfig& config, int64_t layers) {
  std::vector<bool> has = indexed_layers(config, layers);
  if (!has.empty()) return has;
  if (const std::string letters = config.get_string("index_topk_pattern", ""); !letters.empty()) {
    config.require(letters.find_first_not_of("FS") == std::string::npos, "this index_topk_pattern");
    for (const char letter : letters) has.push_back(letter == 'F');
  } else {
    const int64_t period = config.get_int("index_topk_freq", 1, 1, kMostHeads);
    const int64_t offset = config.get_int("index_skip_topk_offset", 2, 0, kMostHeads);
    for (int64_t i = 0; i < layers; ++i) {
      has.push_back(std::max<int64_t>(i - offset + 1, 0) % period == 0);
    }
  }
  config.require(std::ssize(has) == layers, "an index_topk_pattern for another number of layers");
  return has;
}

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
  const std::string section = rope_section(m.config);
  const double multiplier = m.config.get_float(section + "mscale_all_dim", 0.0);
  m.config.require(m.config.get_float(section + "mscale", multiplier) == multiplier,
                   "an mscale other than mscale_all_dim");
  m.config.require(m.config.get_bool("rope_interleave", true), "rope_interleave false");
  if (multiplier != 0) m.keys.set_float("rope.scaling.yarn_log_multiplier", 0.1 * multiplier);
  m.feed_forward();
  if (family.dense) {
    // What llama.cpp needs all the same.
    m.keys.set_int("leading_dense_block_count", m.layer_count());
    m.keys.set_int("expert_feed_forward_length",
                   m.config.need_int("intermediate_size", 1, kMaxWidth));
    m.keys.set_int("expert_shared_count", 0);
  } else {
    m.config.assume("routed_scaling_factor", family.scale);
    map_deepseek_experts(m, family.routing);
  }
  if (family.index_heads > 0) {
    std::vector<bool> has = with_index(m.config, m.own_layer_count());
    has.resize(static_cast<size_t>(m.layer_count()), true);
    map_slot_index(m, family.index_heads, has);
  }
  if (const double beta = m.config.get_float(section + "llama_4_scaling_beta", 0.0); beta != 0) {
    m.keys.set_float("attention.temperature_scale", beta);
    m.keys.set_int("attention.temperature_length",
                   m.config.get_int(section + "original_max_position_embeddings",
                                    m.config.need_int("max_position_embeddings", 1, kMaxContext), 1,
                                    kMaxContext));
  }
}

}  // namespace

const ArchDef& deepseek2_arch() {
  static constexpr const char* kNames[] = {"deepseek2", "deepseek32", kGlm, kMistral};
  static constexpr const char* kCheckpoints[] = {"DeepseekV2ForCausalLM",  "DeepseekV3ForCausalLM",
                                                 "Glm4MoeLiteForCausalLM", "Mistral4ForCausalLM",
                                                 "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM",
                                                 "YoutuForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map, create_head};
  return def;
}

}  // namespace infer
