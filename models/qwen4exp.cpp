// Qwen3.8-Flash-Next: the delta nets, gated attention and experts of Qwen 3.5 on a residual of
// several streams. Each part takes a mix of the streams and gives what it makes to each of them in
// another measure (hyper-connections, Zhu et al. 2024). Queries of attention see some thousands of
// tokens, in blocks that an index chooses. One layer adds what a table holds for the last tokens
// (n-grams, Cheng et al. 2026). Qwen Team 2026.
#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "engine/core/checked.h"
#include "engine/core/file.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/decoder.h"
#include "engine/model/delta_net.h"
#include "engine/model/ngram_layer.h"

namespace infer {
namespace {

constexpr int64_t kMostStreams = 64;
constexpr int64_t kMostHeads = 4096;
constexpr int64_t kMostChosen = 1 << 16;
constexpr auto kStyle = op::Rope::Style::half_split;
constexpr op::Glu kSigmoid{op::Glu::Kind::sigmoid};

/// What chooses the tokens that queries see: "indexer.…".
struct BlockIndex {
  int64_t heads = 1;
  int64_t key = 1;              ///< elements of a key
  int32_t count = 0;            ///< tokens that are chosen; 0: queries see all
  int32_t block = 1;            ///< tokens of a block, which share a key
  int32_t rope = 0;             ///< which of the model's RoPE kinds turns keys
  std::vector<int32_t> caches;  ///< by layer: index in ModelInfo::kv_layers; −1: none
};

class Qwen4Exp final : public DecoderModel {
 public:
  explicit Qwen4Exp(HparamReader& r)
      : DecoderModel(r, kStyle),
        net_(r, params.eps),
        streams_(r.need_int("hyper_connection.count", 2,
                            std::clamp<int64_t>(params.embedding, 2, kMostStreams))),
        rank_(r.need_int("hyper_connection.low_rank", 1, kMaxWidth)) {
    net_.gate = op::Glu::Kind::sigmoid;
    info_.image_layers = 0;  // images add nothing behind layers
    experts.route = read_route(r, params, 1, true);
    read_axes(r, info_.ropes[0], true);
    drop_attention(recurrent_layers(r, params.layers));
    index_.caches.assign(static_cast<size_t>(params.layers), -1);
    read_index(r);
    ngrams_ = read_ngram_layer(r, params);
    if (ngrams_) {
      info_.ngrams = ngrams_->spec;
      if (attends(ngrams_->layer)) {
        r.set_error(error(StatusCode::unsupported,
                          "{}: ple.layers: expected a recurrent layer, found {}",
                          r.metadata().source(), ngrams_->layer));
      }
    }
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      AttentionBlock& block = attention[static_cast<size_t>(layer)];
      block.qk_norm = AttentionBlock::QkNorm::per_head;
      block.gate = AttentionBlock::Gate::with_queries;
      if (!attends(layer)) add_state(layer, net_.state() + (adds_ngrams(layer) ? conv() : 0));
    }
  }

  void build(ModelBuilder& m) const override {
    ValueId x = m.embed_tokens();
    x = m.g.add(op::MoeSpread{}, {x, constant(m, x, 1.0f)});  // [embedding, streams, rows]
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
      if (adds_ngrams(layer)) x = add_ngrams(m, x, layer);
      auto [h, shares] = mix(m, x, block_name(layer, "hc_attn"));
      h = attend(m, h, layer);
      if (layer + 1 == params.layers) {  // from here on only the rows whose logits are wanted
        for (ValueId* value : {&x, &h, &shares}) *value = m.select_outputs(*value);
      }
      x = m.add(x, m.g.add(op::MoeSpread{}, {h, shares}));
      m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
      std::tie(h, shares) = mix(m, x, block_name(layer, "hc_ffn"));
      x = m.add(x, m.g.add(op::MoeSpread{}, {feed_forward(m, h, layer), shares}));
    }
    m.g.set_unit({UnitKind::output, -1});
    x = mix(m, x, "output_hc", false).first;
    if (m.embeds()) return m.output_embedding(x);
    m.g.output(m.output_logits(x), "logits");
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const auto i = static_cast<size_t>(layer);
    if (!attends(layer)) return delta_net_block(m, x, layer, net_, states[i]);
    return attention_block(m, x, attention[i], choose(m, x, layer));
  }

 private:
  void read_index(HparamReader& r) {
    // Of all blocks of the file, also of those that predict further tokens.
    const std::vector<int64_t> blocks = r.per_layer(
        "attention.compress_ratios", r.need_int("block_count", 1, 1024), 0, 0, kMostChosen);
    const std::string& file = r.metadata().source();
    for (int64_t layer = 0; layer < params.layers; ++layer) {
      const auto block = static_cast<int32_t>(blocks[static_cast<size_t>(layer)]);
      if (block == 0 || !attends(layer)) continue;
      if (index_.count == 0) {
        index_.heads = r.need_int("attention.indexer.head_count", 1, kMostHeads);
        index_.key = r.need_int("attention.indexer.key_length", 2 * info_.ropes[0].pairs,
                                std::max<int64_t>(kMaxWidth, 2 * info_.ropes[0].pairs));
        index_.count =
            static_cast<int32_t>(r.need_int("attention.indexer.top_k", block, kMostChosen));
        index_.block = block;
        index_.rope = static_cast<int32_t>(info_.ropes.size());
        info_.ropes.push_back(info_.ropes[0]);
        info_.ropes.back().block = block;
      }
      if (block != index_.block || index_.count % block != 0) {
        r.set_error(error(StatusCode::unsupported,
                          "{}: attention.compress_ratios: expected one ratio for all layers with "
                          "attention, which divides attention.indexer.top_k {}, found {} and {}",
                          file, index_.count, index_.block, block));
      }
      attention[static_cast<size_t>(layer)].chosen_block = block;
      index_.caches[static_cast<size_t>(layer)] = static_cast<int32_t>(info_.kv_layers.size());
      KvLayerShape shape{1, static_cast<int32_t>(index_.key), static_cast<int32_t>(index_.key)};
      shape.v_in_k = true;  // there are no values
      shape.layer = static_cast<int32_t>(layer);
      info_.kv_layers.push_back(shape);
      add_state(layer, round_up(index_.key, kStatePad));
    }
  }

  bool adds_ngrams(int64_t layer) const { return ngrams_ && ngrams_->layer == layer; }
  /// Elements of the state of the n-grams' convolution.
  int64_t conv() const {
    return conv_state((ngrams_->taps - 1) * ngrams_->spec.tokens() + 1,
                      streams_ * params.embedding);
  }

  /// A number for each stream, [streams, 1, rows], with as many rows as x: zero times something,
  /// held at the number.
  ValueId constant(ModelBuilder& m, ValueId x, float value) const {
    if (m.g.value(x).desc.shape[1] > 1) x = m.g.merge_heads(x);
    return m.g.add(op::Scale{0.0f, value, value}, {m.g.slice(x, 0, streams_)});
  }

  /// Each stream of x [embedding, streams, rows] with a norm of its own: [embedding·streams, 1,
  /// rows]. The weight lies in a row, or a row for each stream.
  ValueId stream_norm(ModelBuilder& m, ValueId x, const std::string& name) const {
    const int64_t width = streams_ * params.embedding;
    x = m.g.merge_heads(m.g.add(op::RmsNorm{params.eps}, {x, kNoValue}));
    const bool in_rows = m.rows_of(name) > 1;
    const ValueId weight =
        in_rows ? m.g.merge_heads(m.weight(name + ".weight", {params.embedding, streams_}))
                : m.weight(name + ".weight", {width});
    return m.g.add(op::Multiply{}, {x, weight});
  }

  /// What a part takes of x [embedding, streams, rows], and, if it `injects`, what each stream gets
  /// of what it makes: [embedding, 1, rows] and [streams, 1, rows].
  std::pair<ValueId, ValueId> mix(ModelBuilder& m, ValueId x, const std::string& name,
                                  bool injects = true) const {
    GraphBuilder& g = m.g;
    const auto count = static_cast<float>(streams_);
    const ValueId normed = stream_norm(m, x, name + "_norm");
    ValueId low = g.add(op::Scale{1.0f / count}, {m.linear(normed, name + "_down", rank_)});
    low = g.add(kSigmoid, {low, low});  // SiLU
    const ValueId gates = m.linear(low, name + "_up", streams_ * params.embedding);
    const ValueId gated = g.split_heads(g.add(kSigmoid, {gates, normed}), streams_);
    const ValueId mean = g.add(op::MoeCombine{}, {gated, constant(m, x, 1.0f / count)});
    if (!injects) return {mean, kNoValue};
    const ValueId shares =
        g.add(op::Scale{1.0f / count}, {m.linear(normed, name + "_inject", streams_)});
    return {mean, g.add(kSigmoid, {shares, constant(m, x, 2.0f)})};
  }

  /// x [embedding, streams, rows] plus what the table holds for the row's tokens, by gates that
  /// compare it with each stream, and a convolution of that.
  ValueId add_ngrams(ModelBuilder& m, ValueId x, int64_t layer) const {
    const auto name = [&](const char* part) { return block_name(layer, part); };
    GraphBuilder& g = m.g;
    const int64_t width = streams_ * params.embedding;
    const auto split = [&](ValueId v) { return g.split_heads(v, streams_); };
    const ValueId found = g.input(StepInput::ngrams, 0, ngrams_->spec.elements());
    const ValueId keys =
        stream_norm(m, split(m.linear(found, name("ple_key"), width)), name("ple_norm_key"));
    const ValueId queries = stream_norm(m, x, name("ple_norm_query"));
    const float scale = 1.0f / std::sqrt(static_cast<float>(params.embedding));
    const ValueId gates = g.add(op::MemoryGate{scale}, {split(queries), split(keys)});
    const ValueId value =
        g.add(op::MoeSpread{}, {m.linear(found, name("ple_value"), params.embedding), gates});
    const ValueId mixed =
        m.causal_conv(stream_norm(m, value, name("ple_norm_conv")), name("ple_conv1d"),
                      ngrams_->taps, states[static_cast<size_t>(layer)], true, net_.state(),
                      static_cast<int32_t>(ngrams_->spec.tokens()));
    return m.add(m.add(x, value), split(mixed));
  }

  /// The slots that a layer's queries see; kNoValue: all.
  ValueId choose(ModelBuilder& m, ValueId x, int64_t layer) const {
    const auto i = static_cast<size_t>(layer);
    if (index_.caches[i] < 0 || m.embeds()) return kNoValue;
    const auto name = [&](const char* part) { return block_name(layer, part); };
    GraphBuilder& g = m.g;
    ValueId q = m.linear(x, name("indexer.q_proj"), index_.heads * index_.key);
    q = m.rms_norm(g.split_heads(q, index_.heads), name("indexer.q_norm.weight"), params.eps);
    ValueId k = m.linear(x, name("indexer.k_proj"), index_.key);
    k = g.add(op::BlockMean{states[i], index_.block},
              {k, g.input(StepInput::slots), g.input(StepInput::sequences)});
    k = m.rms_norm(k, name("indexer.k_norm.weight"), params.eps);
    return m.select_slots(m.rope(q, kStyle), m.rope(k, kStyle, index_.rope), kNoValue,
                          {index_.caches[i], index_.count, index_.block});
  }

  DeltaNet net_;
  int64_t streams_;
  int64_t rank_;  ///< of what mixes the streams
  BlockIndex index_;
  std::optional<NgramLayer> ngrams_;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Qwen4Exp>(r), r);
}

void map_index(CheckpointMap& m, const std::vector<bool>& recurrent) {
  m.config.require(m.config.get_int("indexer_kv_heads", 1, 1, kMostHeads) == 1,
                   "more than one key of the index");
  const int64_t heads = m.config.need_int("indexer_n_heads", 1, kMostHeads);
  const int64_t key = m.config.need_int("indexer_head_dim", 1, kMaxWidth);
  const int64_t block = m.config.need_int("indexer_compress_ratio", 1, kMostChosen);
  m.keys.set_int("attention.indexer.head_count", heads);
  m.keys.set_int("attention.indexer.key_length", key);
  m.keys.set_int("attention.indexer.top_k", m.config.need_int("indexer_budget", 1, kMostChosen));
  std::vector<int64_t> blocks;
  for (const bool is_recurrent : recurrent) blocks.push_back(is_recurrent ? 0 : block);
  m.keys.set_ints("attention.compress_ratios", blocks);
  m.layers({{"self_attn.indexer.q_layernorm", "indexer.q_norm", Change::add_one},
            {"self_attn.indexer.k_layernorm", "indexer.k_norm", Change::add_one}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.split_rows(layer_name(i, "self_attn.indexer.index_qk_proj.weight"),
                         {{block_name(i, "indexer.q_proj.weight"), heads * key},
                          {block_name(i, "indexer.k_proj.weight"), key}});
  }
}

void map_streams(CheckpointMap& m) {
  m.keys.set_int("hyper_connection.count", m.config.get_int("hc_count", 4, 2, kMostStreams));
  m.keys.set_int("hyper_connection.low_rank", m.config.get_int("hc_lowrank", 320, 1, kMaxWidth));
  const auto copy = [&](const std::string& from, const std::string& to) {
    m.tensors.copy(from + ".hc_norm.weight", to + "_norm.weight", Change::add_one);
    m.tensors.copy(from + ".input_mix_weight_down.weight", to + "_down.weight");
    m.tensors.copy(from + ".input_mix_weight_up.weight", to + "_up.weight");
    m.tensors.copy(from + ".block_inject_weight.weight", to + "_inject.weight");
  };
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    copy(layer_name(i, "attn_hyper_connection"), block_name(i, "hc_attn"));
    copy(layer_name(i, "mlp_hyper_connection"), block_name(i, "hc_ffn"));
  }
  copy("hyper_connection_mixer", "output_hc");
}

void map(CheckpointMap& m) {
  m.config.assume("intermediate_size", m.config.need_int("moe_intermediate_size", 1, kMaxWidth));
  m.begin({.architecture = "qwen4exp"});
  m.ends();
  m.attention();
  m.layers({{"self_attn.q_norm", "attn_q_norm", Change::add_one},
            {"self_attn.k_norm", "attn_k_norm", Change::add_one}});
  const std::string gate = m.config.get_string("output_gate_type", "");
  m.config.require(gate == "sigmoid", "an output_gate_type other than sigmoid");
  if (const std::vector<std::string>* types = m.config.get_strings("layer_types")) {
    constexpr std::string_view kTypes[] = {"linear_attention", "indexed_attention",
                                           "full_attention"};
    for (const std::string& type : *types) {
      const bool known = std::ranges::find(kTypes, type) != std::end(kTypes);
      m.config.require(known, "a layer of type " + printable(type));
    }
  }
  const std::vector<bool> recurrent = map_delta_nets(m, true, m.layer_count());
  map_axes(m);
  map_gated_experts(m);
  map_index(m, recurrent);
  map_streams(m);
  map_ngram_layer(m);
  m.tensors.ignore_prefix("mtp.");
}

}  // namespace

const ArchDef& qwen4exp_arch() {
  static constexpr const char* kNames[] = {"qwen4exp"};
  static constexpr const char* kCheckpoints[] = {"Qwen4ExpForConditionalGeneration",
                                                 "Qwen4ExpForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
