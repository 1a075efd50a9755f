// GLM-5-Next: three of four layers are Kimi delta attention, whose decays have a bound, the others
// multi-head latent attention without positions. There a query sees some thousands of tokens, in
// blocks that an index chooses by one key each: a mean over the block by gates of each element. The
// residual has several streams, which are mixed by a matrix whose rows and columns sum to 1; their
// mean is what leaves the last layer. Experts as in DeepSeek V3, with limits on what SwiGLU
// multiplies. Z.ai 2026.
#include <algorithm>
#include <utility>

#include "engine/core/file.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/delta_latent_decoder.h"
#include "engine/model/streams.h"

namespace infer {
namespace {

constexpr int64_t kMostBlock = 4096;

class Glm5Next final : public DeltaLatentModel {
 public:
  explicit Glm5Next(HparamReader& r) : DeltaLatentModel(r, false), streams_(r, params) {
    info_.image_layers = 0;
    latent.rotate = false;
    latent.inner_eps = params.eps;
    delta.flat = true;
    experts.limits_gate = true;
    read_limits(r, true);
    read_index(r);
  }

  void build(ModelBuilder& m) const override {
    ValueId x = streams_.layers(
        m, params, [&](ValueId h, int64_t layer) { return attend(m, h, layer); },
        [&](ValueId h, int64_t layer) { return feed_forward(m, h, layer); });
    m.g.set_unit({UnitKind::output, -1});
    x = m.rms_norm(streams_.mean(m, x), "output_norm.weight", params.eps);
    m.g.output(m.output_logits(x), "logits");
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    if (!attends(layer)) return DeltaLatentModel::attend(m, x, layer);
    return latent_block(m, x, layer, latent, attention[static_cast<size_t>(layer)].cache, &index_);
  }

 private:
  void read_index(HparamReader& r) {
    // Of all blocks of the file, also of those that predict further tokens.
    std::vector<bool> has = r.flags("attention.indexer.types", params.layers);
    has.resize(static_cast<size_t>(params.layers), has.empty());
    bool seen = false;
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      const auto i = static_cast<size_t>(layer);
      if (!attends(layer)) {
        has[i] = false;
        continue;
      }
      seen = seen || has[i];
      if (!seen) {
        r.set_error(error(StatusCode::bad_file,
                          "{}: attention.indexer.types: expected an index in layer {}, the first "
                          "one with latent attention",
                          r.metadata().source(), layer));
      }
    }
    index_.rotates = false;
    index_.block = static_cast<int32_t>(r.need_int("attention.indexer.kpool", 2, kMostBlock));
    index_.read(r, has, 1, info_.kv_layers);
    if (index_.count % index_.block != 0) {
      r.set_error(error(StatusCode::unsupported,
                        "{}: attention.indexer.top_k: expected whole blocks of {} tokens, found {}",
                        r.metadata().source(), index_.block, index_.count));
    }
    if (!r.get_bool("attention.indexer.kpool_select_tail", true)) {
      r.set_error(error(StatusCode::unsupported,
                        "{}: attention.indexer.kpool_select_tail: expected true, so that queries "
                        "see the tokens behind the last whole block",
                        r.metadata().source()));
    }
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      if (has[static_cast<size_t>(layer)]) add_state(layer, index_.pool_state());
    }
    index_.states = states;
  }

  Streams streams_;
  SlotIndex index_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Glm5Next>(r), r);
}

/// Which layers are Kimi delta attention.
std::vector<bool> delta_layers(CheckpointMap& m) {
  std::vector<bool> delta;
  const std::vector<std::string>* types = m.config.get_strings("layer_types");
  if (types != nullptr) {
    for (const std::string& type : *types) {
      delta.push_back(type == "linear_attention");
      m.config.require(delta.back() || type == "indexed_attention" || type == "full_attention",
                       "a layer of type " + printable(type));
    }
    m.config.require(std::ssize(delta) == m.layer_count(),
                     "layer_types for another number of layers");
    delta.resize(static_cast<size_t>(m.layer_count()), false);
    return delta;
  }
  for (int64_t i = 0; i < m.layer_count(); ++i) delta.push_back(i % 4 != 3);
  return delta;
}

/// Which layers choose for themselves: by a list, a pattern of letters, or every few of them.
std::vector<bool> choosing_layers(CheckpointMap& m) {
  std::vector<bool> has = indexed_layers(m.config, m.layer_count());
  if (!has.empty()) return has;
  const std::string pattern = m.config.get_string("index_topk_pattern", "");
  const int64_t period = m.config.get_int("index_topk_freq", 1, 1, 1024);
  const int64_t offset = m.config.get_int("index_skip_topk_offset", 2, 0, 1024);
  m.config.require(pattern.empty() || std::ssize(pattern) == m.layer_count(),
                   "this index_topk_pattern");
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    has.push_back(i < std::ssize(pattern) ? pattern[static_cast<size_t>(i)] == 'F'
                                          : std::max<int64_t>(i - offset + 1, 0) % period == 0);
  }
  return has;
}

void map_index(CheckpointMap& m) {
  map_slot_index(m, 32, choosing_layers(m));
  m.keys.set_int("attention.indexer.kpool", m.config.get_int("index_kpool", 16, 1, kMostBlock));
  m.keys.set_bool("attention.indexer.kpool_select_tail",
                  m.config.get_bool("index_kpool_always_select_tail", true));
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    for (const char* part : {"gate", "ape"}) {
      m.tensors.copy(
          layer_name(i, std::string("self_attn.indexer.index_kpool_compress_") + part),
          block_name(i, (std::string("indexer_compressor_") + part + ".weight").c_str()));
    }
  }
}

void map(CheckpointMap& m) {
  rename_delta_keys(m);
  m.config.replace("head_dim", int64_t{0});  // of what RoPE turns, which is nothing
  m.begin({.architecture = "glm5-next"});
  m.config.require(m.config.get_int("qk_rope_head_dim", 0, 0, kMaxWidth) == 0, "qk_rope_head_dim");
  m.config.require(m.config.get_bool("mla_use_nope", true), "mla_use_nope false");
  m.config.require(m.config.get_bool("mhc", true), "mhc false");
  m.ends();
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "ffn_norm"},
            {"self_attn.f_a_proj", "ssm_f_a"},
            {"self_attn.f_b_proj", "ssm_f_b"},
            {"self_attn.g_a_proj", "ssm_g_a"},
            {"self_attn.g_b_proj", "ssm_g_b"}});
  map_latent(m);
  map_kimi_delta(m, delta_layers(m), true);
  const std::string bound = m.config.has("linear_attn_config.gate_lower_bound")
                                ? "linear_attn_config.gate_lower_bound"
                                : "linear_lower_bound";
  m.keys.set_float("kda.gate_lower_bound", m.config.get_float(bound, -5.0));
  map_index(m);
  map_streams(m);
  m.feed_forward();
  map_deepseek_experts(m, DeepseekRouting::v3);
  const auto limit = static_cast<float>(m.config.get_float("swiglu_limit", 10.0));
  m.config.require(limit > 0, "this swiglu_limit");
  const std::vector<float> limits(static_cast<size_t>(m.layer_count()), limit);
  m.keys.set_floats("swiglu_clamp_exp", limits);
  m.keys.set_floats("swiglu_clamp_shexp", limits);
}

}  // namespace

const ArchDef& glm5_next_arch() {
  static constexpr const char* kNames[] = {"glm5-next"};
  static constexpr const char* kCheckpoints[] = {"Glm5NextForConditionalGeneration"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
