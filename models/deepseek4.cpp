// DeepSeek-V4: attention over the last tokens and over blocks of all earlier ones. A block of
// tokens has one key, which is also its value: a mean over the block by gates of each element
// ("compressed attention"). Some layers have short blocks that overlap, of which an index chooses
// the best for each query, some long ones that queries see all of, some none. Queries come from a
// latent vector; what the heads make is turned back by the query's position, and projected by
// groups of heads. The residual has several streams, which are mixed by a matrix whose rows and
// columns sum to 1. Experts are weighted by the root of softplus, and in the first layers a table
// says which ones each token takes. DeepSeek-AI 2026.
#include <algorithm>
#include <utility>

#include "engine/core/checked.h"
#include "engine/core/file.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_experts.h"
#include "engine/model/limited_decoder.h"
#include "engine/model/slot_index.h"
#include "engine/model/streams.h"

namespace infer {
namespace {

constexpr int64_t kMostHeads = 4096;
constexpr int64_t kMostBlock = 4096;
constexpr int64_t kMostChosen = 1 << 16;
constexpr auto kStyle = op::Rope::Style::interleaved;

/// What a layer attends to beside the last tokens.
struct Blocks {
  int32_t block = 0;     ///< tokens of a block; 0: there are none
  bool indexed = false;  ///< an index chooses among them, and they overlap
  int32_t cache = 0;     ///< of their keys: index in ModelInfo::kv_layers
  int32_t index = 0;     ///< of the keys of the index: the same
  int32_t rope = 0;      ///< which of the model's RoPE kinds turns keys
};

class Deepseek4 final : public LimitedModel {
 public:
  explicit Deepseek4(HparamReader& r)
      : LimitedModel(r, kStyle),
        rank_(r.need_int("attention.q_lora_rank", 1, kMaxWidth)),
        window_(static_cast<int32_t>(r.need_int("attention.sliding_window", 1, INT32_MAX))),
        groups_(r.need_int("attention.output_group_count", 1, params.heads)),
        output_rank_(r.need_int("attention.output_lora_rank", 1, kMaxWidth)),
        streams_(r, params) {
    info_.image_layers = 0;
    experts.route = read_route(r, params, 4, true);
    experts.shared_width = r.get_int("expert_shared_count", 0, 0, 1024) * experts.width;
    experts.limits_gate = true;
    read_limits(r, true);
    check(r);
    read_ropes(r);
    read_blocks(r);
  }

  void build(ModelBuilder& m) const override {
    ValueId x = streams_.layers(
        m, params, [&](ValueId h, int64_t layer) { return attend(m, h, layer); },
        [&](ValueId h, int64_t layer) { return feed_forward(m, h, layer); });
    m.g.set_unit({UnitKind::output, -1});
    x = m.rms_norm(streams_.take(m, x, "output_hc", false).taken, "output_norm.weight", params.eps);
    m.g.output(m.output_logits(x), "logits");
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const auto name = [&](const char* part) { return block_name(layer, part); };
    const Blocks& blocks = blocks_[static_cast<size_t>(layer)];
    const AttentionBlock& own = attention[static_cast<size_t>(layer)];
    const int32_t rope = blocks.block > 0 ? kBlockRope : kPlainRope;
    const int64_t dim = params.head_dim;
    const ValueId latent =
        m.rms_norm(m.linear(x, name("attn_q_a"), rank_), name("attn_q_a_norm.weight"), params.eps);
    ValueId q = m.g.split_heads(m.linear(latent, name("attn_q_b"), own.heads * dim), own.heads);
    q = turned(m, m.g.add(op::RmsNorm{params.eps}, {q, kNoValue}), rope);
    ValueId k =
        m.rms_norm(m.linear(x, name("attn_kv"), dim), name("attn_kv_norm.weight"), params.eps);
    k = turned(m, k, rope);
    const ValueId sinks = m.weight(name("attn_sinks.weight"), {own.heads});
    ValueId mixed = kNoValue;
    if (blocks.block == 0) {
      mixed = m.attention(q, k, k, {own.cache, own.scale, 0.0f, window_}, sinks);
    } else {
      const ValueId pooled = pool(m, x, layer, "attn_compressor_", dim, 0);
      mixed = m.pooled_attention(q, k, pooled, {own.cache, blocks.cache, own.scale, window_}, sinks,
                                 choose(m, x, latent, layer));
    }
    mixed = m.g.merge_heads(turned(m, m.g.split_heads(mixed, own.heads), rope + kBack));
    const ValueId weight =
        m.weight(name("attn_output_a.weight"), {own.heads * dim / groups_, output_rank_, groups_});
    mixed = m.g.add(op::HeadMatmul{}, {m.g.split_heads(mixed, groups_), weight});
    return m.linear(m.g.merge_heads(mixed), name("attn_output_b"), params.embedding);
  }

 private:
  // The model's RoPE kinds; those of the keys of blocks follow.
  static constexpr int32_t kPlainRope = 0;
  static constexpr int32_t kBlockRope = 2;  ///< of layers with blocks
  static constexpr int32_t kBack = 1;       ///< the kind behind each turns back

  void check(HparamReader& r) const {
    const std::string& file = r.metadata().source();
    const auto refuse = [&](const std::string& what) {
      r.set_error(error(StatusCode::unsupported, "{}: {}", file, what));
    };
    for (size_t layer = 0; layer < params.layer_heads.size(); ++layer) {
      if (params.kv_heads[layer] != 1 || params.layer_heads[layer] % groups_ != 0) {
        refuse(
            fmt::format("attention.head_count: expected one key-value head and heads in {} "
                        "groups, found {} and {}",
                        groups_, params.kv_heads[layer], params.layer_heads[layer]));
      }
    }
    if (params.value_dim != params.head_dim) {
      refuse(fmt::format("attention.value_length: expected that of keys, {}, found {}",
                         params.head_dim, params.value_dim));
    }
    if (experts.route.gating != op::MoeRoute::Gating::sqrt_softplus) {
      refuse("expert_gating_func: expected 4, the root of softplus");
    }
    const int64_t hashed = r.get_int("hash_layer_count", 0, 0, 1024);
    if (hashed >= params.layers) {
      refuse(fmt::format("hash_layer_count: expected less than the {} layers, found {}",
                         params.layers, hashed));
    }
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      const std::string table = block_name(layer, "ffn_gate_tid2eid.weight");
      if ((weight_index(r.source(), table) >= 0) == (layer < hashed)) continue;
      r.set_error(error(StatusCode::bad_file,
                        "{}: hash_layer_count: expected tensors '{}' in the first {} layers alone",
                        file, table, hashed));
    }
  }

  /// Layers with blocks have a base of their own, and their scaling. It leaves cos and sin as they
  /// are.
  void read_ropes(HparamReader& r) {
    RopeSpec blocks = info_.ropes[0];
    if (blocks.pairs * 2 >= params.head_dim) {
      r.set_error(error(StatusCode::unsupported,
                        "{}: rope.dimension_count: expected less than the {} elements of a head, "
                        "found {}",
                        r.metadata().source(), params.head_dim, blocks.pairs * 2));
    }
    blocks.base = r.get_float("attention.compress_rope_freq_base", blocks.base);
    if (!(blocks.base > 1)) {
      r.set_error(error(StatusCode::bad_file,
                        "{}: attention.compress_rope_freq_base: expected more than 1, found {}",
                        r.metadata().source(), blocks.base));
    }
    blocks.magnitude = 1.0;
    info_.ropes = {unscaled(info_.ropes[0], info_.ropes[0].base), {}, blocks, {}};
    for (const int32_t kind : {kPlainRope, kBlockRope}) {
      RopeSpec& back = info_.ropes[static_cast<size_t>(kind + kBack)];
      back = info_.ropes[static_cast<size_t>(kind)];
      back.back = true;
    }
  }

  /// The caches: the last tokens, which have their own in any layer; keys of blocks and of the
  /// index; what is known of blocks that have not ended.
  void read_blocks(HparamReader& r) {
    const std::vector<int64_t> ratios = r.per_layer(
        "attention.compress_ratios", r.need_int("block_count", 1, 1024), 0, 0, kMostBlock);
    blocks_.resize(static_cast<size_t>(params.layers));
    for (int64_t layer = 0; layer < params.layers && r.status().ok(); ++layer) {
      const auto i = static_cast<size_t>(layer);
      KvLayerShape& tokens = info_.kv_layers[static_cast<size_t>(attention[i].cache)];
      tokens.v_in_k = true;
      set_window(layer, window_);
      Blocks& own = blocks_[i];
      own.block = static_cast<int32_t>(ratios[i]);
      if (own.block == 0) continue;
      own.indexed = weight_index(r.source(), block_name(layer, "indexer.attn_q_b.weight")) >= 0;
      own.rope = rope_of(own.block);
      own.cache = add_blocks(layer, own.block, params.head_dim);
      if (own.indexed) {
        index_.read(r, info_.ropes[0].pairs * 2);
        own.index = add_blocks(layer, own.block, index_.key);
      }
      add_state(layer,
                pool_state(own, params.head_dim) + (own.indexed ? pool_state(own, index_.key) : 0));
    }
  }

  static int64_t pool_state(const Blocks& blocks, int64_t dim) {
    return round_up(3 * dim * (blocks.indexed ? 2 : 1), kStatePad);
  }

  int32_t add_blocks(int64_t layer, int32_t block, int64_t key) {
    KvLayerShape shape{1, static_cast<int32_t>(key), static_cast<int32_t>(key)};
    shape.v_in_k = true;
    shape.layer = static_cast<int32_t>(layer);
    shape.tokens = block;
    info_.kv_layers.push_back(shape);
    return static_cast<int32_t>(info_.kv_layers.size() - 1);
  }

  /// The kind of RoPE that turns keys of blocks as their first tokens. Blocks of one token are
  /// turned as these.
  int32_t rope_of(int32_t block) {
    if (block == 1) return kBlockRope;
    for (size_t kind = kBlockRope + kBack + 1; kind < info_.ropes.size(); ++kind) {
      if (info_.ropes[kind].block == block) return static_cast<int32_t>(kind);
    }
    info_.ropes.push_back(info_.ropes[kBlockRope]);
    info_.ropes.back().block = block;
    return static_cast<int32_t>(info_.ropes.size() - 1);
  }

  /// x [dim, heads, rows] with its last elements turned.
  ValueId turned(ModelBuilder& m, ValueId x, int32_t kind) const {
    const int64_t dim = m.g.value(x).desc.shape[0];
    const int64_t width = info_.ropes[static_cast<size_t>(kind)].pairs * 2;
    const ValueId still = m.g.slice(x, 0, dim - width);
    return m.g.add(op::Concat{}, {still, m.rope(m.g.slice(x, dim - width, width), kStyle, kind)});
  }

  /// The keys of blocks, by the tensors that begin with `prefix`: right in the rows that end one.
  /// `at`: element of the layer's state where theirs begins.
  ValueId pool(ModelBuilder& m, ValueId x, int64_t layer, const std::string& prefix, int64_t dim,
               int64_t at) const {
    const auto name = [&](const char* part) { return block_name(layer, (prefix + part).c_str()); };
    const Blocks& blocks = blocks_[static_cast<size_t>(layer)];
    const int64_t width = blocks.indexed ? 2 * dim : dim;
    const ValueId value = m.linear(x, name("kv"), width);
    const ValueId mean =
        pool_blocks(m, value, m.linear(x, name("gate"), width), name("ape.weight"),
                    {states[static_cast<size_t>(layer)], blocks.block, blocks.indexed, at});
    return turned(m, m.rms_norm(mean, name("norm.weight"), params.eps), blocks.rope);
  }

  /// The blocks that a layer's queries see; kNoValue: all. What the scores are scaled with changes
  /// no choice.
  ValueId choose(ModelBuilder& m, ValueId x, ValueId latent, int64_t layer) const {
    const Blocks& blocks = blocks_[static_cast<size_t>(layer)];
    if (!blocks.indexed) return kNoValue;
    const ValueId q = m.g.split_heads(
        m.linear(latent, block_name(layer, "indexer.attn_q_b"), index_.heads * index_.key),
        index_.heads);
    const ValueId k =
        pool(m, x, layer, "indexer_compressor_", index_.key, pool_state(blocks, params.head_dim));
    const ValueId weights = m.linear(x, block_name(layer, "indexer.proj"), index_.heads);
    return m.select_slots(turned(m, q, kBlockRope), k, weights,
                          {blocks.index, index_.count * blocks.block, blocks.block, true});
  }

  struct Index {
    int64_t heads = 1;
    int64_t key = 1;  ///< elements of a key
    int32_t count = 1;

    void read(HparamReader& r, int64_t turned) {
      heads = r.need_int("attention.indexer.head_count", 1, kMostHeads);
      key = r.need_int("attention.indexer.key_length", turned + 1,
                       std::max<int64_t>(kMaxWidth, turned + 1));
      count = static_cast<int32_t>(r.need_int("attention.indexer.top_k", 1, kMostChosen));
    }
  };

  int64_t rank_;  ///< of queries
  int32_t window_;
  int64_t groups_;  ///< of heads, for the output
  int64_t output_rank_;
  Streams streams_;
  Index index_;
  std::vector<Blocks> blocks_;  ///< by layer
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Deepseek4>(r), r);
}

/// RoPE of layers with blocks, where transformers 5 has it.
void find_rope(CheckpointMap& m) {
  const std::string section = "rope_parameters.compress.";
  if (!m.config.has(section + "rope_type")) return;
  m.config.assume("rope_scaling.rope_type", m.config.get_string(section + "rope_type", ""));
  for (const char* key : {"factor", "beta_fast", "beta_slow"}) {
    if (!m.config.has(section + key)) continue;
    m.config.assume(std::string("rope_scaling.") + key, m.config.get_float(section + key, 0));
  }
  if (const char* key = "original_max_position_embeddings"; m.config.has(section + key)) {
    m.config.assume(std::string("rope_scaling.") + key,
                    m.config.get_int(section + key, 1, 1, kMaxContext));
  }
  m.config.require(m.config.get_float(section + "attention_factor", 1.0) == 1.0,
                   "this attention_factor");
  m.config.require(m.config.get_string("rope_parameters.main.rope_type", "default") == "default",
                   "RoPE scaling in rope_parameters.main");
  const double base = m.config.get_float("rope_theta", 10000.0);
  m.config.replace("rope_theta", m.config.get_float("rope_parameters.main.rope_theta", base));
  m.config.replace("compress_rope_theta",
                   m.config.get_float(section + "rope_theta",
                                      m.config.get_float("compress_rope_theta", 160000.0)));
}

/// Tokens of the blocks of each layer: 0 for those without.
std::vector<int64_t> ratios_of(CheckpointMap& m) {
  const auto count = static_cast<size_t>(m.layer_count());
  if (const std::vector<std::string>* kinds = m.config.get_strings("layer_types")) {
    std::vector<int64_t> ratios;
    for (const std::string& kind : *kinds) {
      const bool sparse = kind == "compressed_sparse_attention";
      const bool known = sparse || kind == "heavily_compressed_attention";
      m.config.require(known || kind == "sliding_attention", "a layer of type " + printable(kind));
      ratios.push_back(
          known ? m.config.get_int("compress_rates." + kind, sparse ? 4 : 128, 1, kMostBlock) : 0);
    }
    m.config.require(ratios.size() == count, "layer_types for another number of layers");
    ratios.resize(count);
    return ratios;
  }
  std::vector<int64_t> ratios = m.config.get_ints("compress_ratios");
  m.config.require(ratios.size() >= count, "compress_ratios for fewer layers");
  ratios.resize(count);
  for (const int64_t ratio : ratios) {
    m.config.require(ratio >= 0 && ratio <= kMostBlock, "these compress_ratios");
  }
  return ratios;
}

/// How many layers have a table of experts.
int64_t hashed_layers(CheckpointMap& m) {
  const std::vector<std::string>* kinds = m.config.get_strings("mlp_layer_types");
  if (kinds == nullptr) return m.config.get_int("num_hash_layers", 3, 0, 1024);
  int64_t hashed = 0;
  while (hashed < std::ssize(*kinds) && (*kinds)[static_cast<size_t>(hashed)] == "hash_moe") {
    ++hashed;
  }
  const auto others = std::count(kinds->begin() + hashed, kinds->end(), "moe");
  m.config.require(std::ssize(*kinds) == m.layer_count() && hashed + others == m.layer_count(),
                   "these mlp_layer_types");
  return hashed;
}

void map_experts(CheckpointMap& m) {
  const int64_t experts = m.config.need_int("n_routed_experts", 1, 65536);
  const int64_t used = m.config.need_int("num_experts_per_tok", 1, experts);
  m.config.require(m.config.get_string("scoring_func", "sqrtsoftplus") == "sqrtsoftplus",
                   "a scoring_func other than sqrtsoftplus");
  m.config.require(m.config.get_bool("norm_topk_prob", true), "norm_topk_prob = false");
  m.keys.set_int("expert_count", experts);
  m.keys.set_int("expert_used_count", used);
  m.keys.set_int("expert_feed_forward_length",
                 m.config.need_int("moe_intermediate_size", 1, kMaxWidth));
  m.keys.set_int("expert_shared_count", m.config.get_int("n_shared_experts", 1, 0, 1024));
  m.keys.set_int("expert_gating_func", 4);
  m.keys.set_bool("expert_weights_norm", true);
  m.keys.set_float("expert_weights_scale", m.config.get_float("routed_scaling_factor", 1.5));
  const auto limit = static_cast<float>(m.config.get_float("swiglu_limit", 10.0));
  m.config.require(limit > 0, "this swiglu_limit");
  const std::vector<float> limits(static_cast<size_t>(m.layer_count()), limit);
  m.keys.set_floats("swiglu_clamp_exp", limits);
  m.keys.set_floats("swiglu_clamp_shexp", limits);
  const int64_t hashed = hashed_layers(m);
  m.keys.set_int("hash_layer_count", hashed);
  m.layers({{"ffn.shared_experts.w1", "ffn_gate_shexp"},
            {"ffn.shared_experts.w2", "ffn_down_shexp"},
            {"ffn.shared_experts.w3", "ffn_up_shexp"}});
  const int64_t vocabulary = m.tensors.shape_of("embed_tokens.weight")[1];
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "ffn.gate.weight"), block_name(i, "ffn_gate_inp.weight"));
    const std::string bias = layer_name(i, "ffn.gate.bias");
    if (i < hashed) {
      m.tensors.ignore(bias);
      m.tensors.put_integers(block_name(i, "ffn_gate_tid2eid.weight"),
                             layer_name(i, "ffn.gate.tid2eid"), {used, vocabulary});
    } else {
      m.tensors.copy(bias, block_name(i, "exp_probs_b.bias"));
    }
    add_experts(m.tensors, i, "ffn.experts", experts, {"w1", "w3", "w2"});
  }
}

void map_attention(CheckpointMap& m) {
  const int64_t width = m.config.need_int("head_dim", 1, kMaxWidth);
  const int64_t groups = m.config.get_int("o_groups", 8, 1, m.head_count());
  const int64_t rank = m.config.get_int("o_lora_rank", 1024, 1, kMaxWidth);
  m.keys.set_int("attention.q_lora_rank", m.config.need_int("q_lora_rank", 1, kMaxWidth));
  m.keys.set_int("attention.sliding_window", m.config.get_int("sliding_window", 128, 1, INT32_MAX));
  m.keys.set_int("attention.output_group_count", groups);
  m.keys.set_int("attention.output_lora_rank", rank);
  m.keys.set_ints("attention.compress_ratios", ratios_of(m));
  m.keys.set_float("attention.compress_rope_freq_base",
                   m.config.get_float("compress_rope_theta", 160000.0));
  m.keys.set_int("attention.indexer.head_count",
                 m.config.get_int("index_n_heads", 64, 1, kMostHeads));
  m.keys.set_int("attention.indexer.key_length",
                 m.config.get_int("index_head_dim", 128, 1, kMaxWidth));
  m.keys.set_int("attention.indexer.top_k", m.config.get_int("index_topk", 512, 1, kMostChosen));
  m.layers({{"attn_norm", "attn_norm"},
            {"ffn_norm", "ffn_norm"},
            {"attn.wq_a", "attn_q_a"},
            {"attn.q_norm", "attn_q_a_norm"},
            {"attn.wq_b", "attn_q_b"},
            {"attn.wkv", "attn_kv"},
            {"attn.kv_norm", "attn_kv_norm"},
            {"attn.norm", "attn_kv_norm"},  // as transformers writes it
            {"attn.wo_b", "attn_output_b"},
            {"attn.compressor.wkv", "attn_compressor_kv"},
            {"attn.compressor.wgate", "attn_compressor_gate"},
            {"attn.compressor.norm", "attn_compressor_norm"},
            {"attn.indexer.wq_b", "indexer.attn_q_b"},
            {"attn.indexer.weights_proj", "indexer.proj"},
            {"attn.indexer.compressor.wkv", "indexer_compressor_kv"},
            {"attn.indexer.compressor.wgate", "indexer_compressor_gate"},
            {"attn.indexer.compressor.norm", "indexer_compressor_norm"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.put(block_name(i, "attn_output_a.weight"),
                  m.tensors.view(layer_name(i, "attn.wo_a.weight"),
                                 {m.head_count() * width / groups, rank, groups}));
    m.tensors.copy(layer_name(i, "attn.attn_sink"), block_name(i, "attn_sinks.weight"));
    m.tensors.copy(layer_name(i, "attn.compressor.ape"),
                   block_name(i, "attn_compressor_ape.weight"));
    m.tensors.copy(layer_name(i, "attn.indexer.compressor.ape"),
                   block_name(i, "indexer_compressor_ape.weight"));
  }
}

void map(CheckpointMap& m) {
  m.tensors.also_named("embed.", "embed_tokens.");
  m.tensors.also_named("head.", "lm_head.");
  m.config.assume("intermediate_size", m.config.need_int("moe_intermediate_size", 1, kMaxWidth));
  m.config.assume("num_key_value_heads", 1);
  find_rope(m);
  m.begin({.architecture = "deepseek4"});
  const double share = m.config.get_float("partial_rotary_factor", 0.125);
  const auto turned = static_cast<int64_t>(
      static_cast<double>(m.config.need_int("head_dim", 1, kMaxWidth)) * share);
  m.keys.set_int("rope.dimension_count",
                 m.config.get_int("qk_rope_head_dim", turned, 2, kMaxWidth));
  m.ends();
  map_attention(m);
  map_streams(m);
  for (const std::string part : {"_fn", "_base", "_scale"}) {
    for (const std::string from : {"hc_head", "hc_head.hc"}) {
      m.tensors.copy(from + part, "output_hc" + part + ".weight");
    }
  }
  map_experts(m);
  m.tensors.ignore_prefix("mtp.");
}

}  // namespace

const ArchDef& deepseek4_arch() {
  static constexpr const char* kNames[] = {"deepseek4"};
  static constexpr const char* kCheckpoints[] = {"DeepseekV4ForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
