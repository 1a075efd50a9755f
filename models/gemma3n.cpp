// Gemma 3n (text): four streams in place of one residual. A layer predicts all of them from a mix
// that the active one chooses, computes with that one alone, and corrects the others by what it
// changed (AltUp, Baykal et al. 2023); beside the attention lies a product of low rank (LAuReL,
// Menghani et al. 2024); the first layers keep of the gate only what stands out. Google 2025.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/shared_kv_decoder.h"

namespace infer {
namespace {

constexpr int64_t kStreams = 4;
constexpr int64_t kOwnLayers = 20;     // that store keys and values, where a file does not say
constexpr int64_t kSparseLayers = 10;  // likewise
constexpr float kSparse = 1.6448536f;  // deviations beyond which 5 % of a normal distribution lie
constexpr const char* kSparsity = "gemma3n.activation_sparsity_scale";

int64_t absent_shared(const HparamReader& r) {
  const auto blocks = r.metadata().get_int("gemma3n.block_count", 1, 1024);
  const int64_t layers = blocks && blocks->has_value() ? **blocks : 1;
  return std::max<int64_t>(0, layers - kOwnLayers);
}

class Gemma3n final : public SharedKvDecoder {
 public:
  explicit Gemma3n(HparamReader& r) : SharedKvDecoder(r, {5, absent_shared(r)}) {
    const auto streams = r.get_int("altup.num_inputs", kStreams, 1, 64);
    const auto active = r.get_int("altup.active_idx", 0, 0, 63);
    if (streams != kStreams || active != 0 || token_width_ == 0) {
      r.set_error(error(StatusCode::unsupported,
                        "{}: expected altup.num_inputs {}, altup.active_idx 0 and "
                        "embedding_length_per_layer_input above 0, found {}, {} and {}",
                        r.metadata().source(), kStreams, streams, active, token_width_));
    }
    const Weight* laurel = r.source().find("blk.0.laurel_l.weight");
    laurel_ = laurel == nullptr ? 1 : laurel->desc.shape[1];
    read_sparsity(r);
  }

  void build(ModelBuilder& m) const override {
    ValueId x = m.embed_tokens(embedding_scale);
    const ValueId tokens = token_inputs(m, x);
    ValueId copies = m.g.add(op::Concat{}, {m.g.add(op::Concat{}, {x, x}), x});
    const ValueId others = other_streams(m, copies, "altup_proj.weight", x);
    std::vector<ValueId> streams{x};
    for (int64_t i = 1; i < kStreams; ++i) streams.push_back(part(m, others, i - 1));
    for (int64_t layer = 0; layer < params.layers; ++layer) add_layer(m, streams, tokens, layer);
    copies = m.g.add(op::Concat{}, {m.g.add(op::Concat{}, {streams[1], streams[2]}), streams[3]});
    const ValueId back = other_streams(m, copies, "altup_unembd_proj.weight", streams[0]);
    x = streams[0];
    for (int64_t i = 1; i < kStreams; ++i) x = m.add(x, part(m, back, i - 1));
    x = m.g.add(op::Scale{1.0f / kStreams}, {x});
    x = m.rms_norm(x, "output_norm.weight", params.eps);
    if (m.embeds()) return m.output_embedding(x);
    x = m.output_logits(x);
    if (logit_softcap > 0) x = m.g.add(op::Softcap{logit_softcap}, {x});
    m.g.output(x, "logits");
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const override {
    const auto i = static_cast<size_t>(layer);
    const int64_t width = params.feed_forward[i];
    ValueId gate = m.linear(x, block_name(layer, "ffn_gate"), width);
    if (sparsity_[i] > -std::numeric_limits<float>::infinity()) {
      gate = m.g.add(op::Outstanding{sparsity_[i]}, {gate});
    }
    const ValueId up = m.linear(x, block_name(layer, "ffn_up"), width);
    return m.linear(m.g.add(glu, {gate, up}), block_name(layer, "ffn_down"), params.embedding);
  }

 private:
  /// Of each layer; minus infinity: all of the gate is kept.
  void read_sparsity(HparamReader& r) {
    const auto layers = static_cast<size_t>(params.layers);
    const MetaValue* value = r.metadata().find(kSparsity);
    const auto* found = value == nullptr ? nullptr : std::get_if<std::vector<float>>(value);
    if (found != nullptr) sparsity_ = *found;
    if (value == nullptr) {
      for (size_t i = 0; i < layers; ++i) {
        sparsity_.push_back(i < kSparseLayers ? kSparse : -std::numeric_limits<float>::infinity());
      }
    }
    bool good = sparsity_.size() >= layers;
    for (const float scale : sparsity_) {
      good = good && scale < std::numeric_limits<float>::infinity();  // nor NaN
    }
    if (good) return;
    r.set_error(error(StatusCode::bad_file, "{}: key '{}': expected {} numbers as f32, found {}",
                      r.metadata().source(), kSparsity, layers, sparsity_.size()));
    sparsity_.assign(layers, 0.0f);
  }

  /// Stream i of those that lie one after another.
  ValueId part(ModelBuilder& m, ValueId all, int64_t i) const {
    return m.g.slice(all, i * params.embedding, params.embedding);
  }

  /// All streams but the active one, each by a matrix of its own and as large as `like`.
  ValueId other_streams(ModelBuilder& m, ValueId x, const char* name, ValueId like) const {
    const int64_t width = params.embedding;
    const ValueId weights = m.weight(name, {width, width, kStreams - 1});
    x = m.g.add(op::HeadMatmul{}, {m.g.split_heads(x, kStreams - 1), weights});
    return m.g.merge_heads(m.g.add(op::MatchMagnitude{}, {x, like}));
  }

  /// What the active stream chooses by: [streams, 1, rows].
  ValueId router(ModelBuilder& m, ValueId x, int64_t layer) const {
    x = m.rms_norm(x, block_name(layer, "altup_router_norm.weight"), params.eps);
    x = m.g.add(op::Scale{1.0f / static_cast<float>(params.embedding)}, {x});
    x = m.linear(x, block_name(layer, "altup_router"), kStreams);
    return m.g.add(op::Softcap{1.0f}, {x});
  }

  void add_layer(ModelBuilder& m, std::vector<ValueId>& streams, ValueId tokens,
                 int64_t layer) const {
    const auto name = [&](const char* part) { return block_name(layer, part); };
    const auto norm = [&](ValueId v, const char* weight) {
      return m.rms_norm(v, name(weight) + ".weight", params.eps);
    };
    m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
    std::vector<ValueId> predicted = predict(m, streams, layer);
    const ValueId normed = norm(predicted[0], "attn_norm");
    ValueId low = m.linear(normed, name("laurel_l"), laurel_);
    low = m.linear(low, name("laurel_r"), params.embedding);
    ValueId beside = m.add(normed, norm(low, "laurel_post_norm"));
    ValueId h = attend(m, normed, layer);
    ValueId token = m.g.slice(tokens, layer * token_width_, token_width_);
    if (layer + 1 == params.layers) {  // from here on only the rows whose logits are wanted
      for (ValueId* value : {&h, &beside, &token}) *value = m.select_outputs(*value);
      for (ValueId& stream : predicted) stream = m.select_outputs(stream);
    }
    h = m.add(predicted[0], norm(h, "post_attention_norm"));
    h = m.g.add(op::Scale{std::sqrt(0.5f)}, {m.add(h, beside)});
    m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
    h = m.add(h, norm(feed_forward(m, norm(h, "ffn_norm"), layer), "post_ffw_norm"));

    const ValueId change = m.add(h, predicted[0], -1.0f);
    const ValueId shares = m.linear(router(m, h, layer), name("altup_correct_coef"), kStreams);
    for (int64_t i = 0; i < kStreams; ++i) {
      const ValueId more = m.g.add(op::MoeCombine{}, {change, m.g.slice(shares, i, 1)});
      streams[static_cast<size_t>(i)] =
          m.add(m.add(predicted[static_cast<size_t>(i)], change), more);
    }
    const ValueId scale = m.weight(name("altup_correct_scale.weight"), {params.embedding});
    h = m.g.add(op::Multiply{}, {streams[0], scale});
    h = m.g.add(glu, {m.linear(h, name("inp_gate"), token_width_), token});
    h = norm(m.linear(h, name("proj"), params.embedding), "post_norm");
    for (size_t i = 1; i < kStreams; ++i) streams[i] = m.add(streams[i], h);
  }

  /// Every stream plus a mix of all.
  std::vector<ValueId> predict(ModelBuilder& m, const std::vector<ValueId>& streams,
                               int64_t layer) const {
    const ValueId weights = m.linear(router(m, streams[0], layer),
                                     block_name(layer, "altup_predict_coef"), kStreams * kStreams);
    ValueId all = streams[0];
    for (size_t i = 1; i < kStreams; ++i) all = m.g.add(op::Concat{}, {all, streams[i]});
    all = m.g.split_heads(all, kStreams);
    std::vector<ValueId> predicted;
    for (int64_t i = 0; i < kStreams; ++i) {
      const ValueId mix =
          m.g.add(op::MoeCombine{}, {all, m.g.slice(weights, kStreams * i, kStreams)});
      predicted.push_back(m.add(streams[static_cast<size_t>(i)], mix));
    }
    return predicted;
  }

  std::vector<float> sparsity_;  ///< by layer
  int64_t laurel_ = 1;           ///< rank
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  return DecoderModel::finish(std::make_unique<Gemma3n>(r), r);
}

/// The number of deviations below which this share of a normal distribution lies.
float deviations_of(double share) {
  if (share <= 0) return -std::numeric_limits<float>::infinity();
  double low = -40;
  double high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
  }
  return static_cast<float>(low);
}

void map_keys(CheckpointMap& m) {
  m.keys.set_float("rope.freq_base_swa",
                   m.config.get_float("rope_parameters.sliding_attention.rope_theta",
                                      m.config.get_float("rope_local_base_freq", 10000.0)));
  m.keys.set_int("attention.sliding_window", m.config.get_int("sliding_window", 512, 1, INT32_MAX));
  map_sliding_layers(m, 5);
  m.keys.set_int("attention.shared_kv_layers",
                 m.config.get_int("num_kv_shared_layers", 15, 0, m.layer_count() - 1));
  m.keys.set_float("final_logit_softcapping", m.config.get_float("final_logit_softcapping", 30.0));
  m.keys.set_int("embedding_length_per_layer_input",
                 m.config.get_int("hidden_size_per_layer_input", 256, 1, kMaxWidth));
  m.keys.set_int("altup.active_idx", m.config.get_int("altup_active_idx", 0, 0, 63));
  m.keys.set_int("altup.num_inputs", m.config.get_int("altup_num_inputs", kStreams, 1, 64));
  m.config.require(m.config.get_bool("altup_correct_scale", true), "altup_correct_scale false");
  std::vector<float> sparsity = m.config.get_floats("activation_sparsity_pattern");
  m.config.require(sparsity.size() == static_cast<size_t>(m.layer_count()),
                   "activation_sparsity_pattern of another number of layers");
  for (float& share : sparsity) share = deviations_of(share);
  m.keys.set_whole(kSparsity, std::move(sparsity));
}

void map(CheckpointMap& m) {
  m.config.assume("hidden_activation", std::string("gelu_pytorch_tanh"));
  m.config.assume("tie_word_embeddings", true);
  m.config.assume("rope_theta", 1e6);
  m.begin({.architecture = "gemma3n", .activation = "gelu_pytorch_tanh"});
  map_keys(m);
  m.ends();
  // It has no rows for tokens that stand for pictures and sound.
  m.tensors.copy_rows("embed_tokens_per_layer.weight", "per_layer_token_embd.weight",
                      m.tensors.shape_of("embed_tokens.weight")[1]);
  m.tensors.copy("per_layer_model_projection.weight", "per_layer_model_proj.weight");
  m.tensors.copy("per_layer_projection_norm.weight", "per_layer_proj_norm.weight");
  for (const auto& [from, to] : {std::pair{"altup_projections", "altup_proj.weight"},
                                 {"altup_unembed_projections", "altup_unembd_proj.weight"}}) {
    std::vector<TensorView> parts;
    for (int64_t i = 0; i + 1 < kStreams; ++i) {
      const std::string name = fmt::format("{}.{}.weight", from, i);
      const auto shape = m.tensors.shape_of(name);
      parts.push_back(m.tensors.view(name, {shape[0], shape[1]}));
    }
    m.tensors.put_stacked(to, std::move(parts));
  }
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", "post_attention_norm"},
            {"pre_feedforward_layernorm", "ffn_norm"},
            {"post_feedforward_layernorm", "post_ffw_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"},
            {"altup.correction_coefs", "altup_correct_coef"},
            {"altup.prediction_coefs", "altup_predict_coef"},
            {"altup.modality_router", "altup_router"},
            {"altup.router_norm", "altup_router_norm"},
            {"laurel.linear_left", "laurel_l"},
            {"laurel.linear_right", "laurel_r"},
            {"laurel.post_laurel_norm", "laurel_post_norm"},
            {"per_layer_input_gate", "inp_gate"},
            {"per_layer_projection", "proj"},
            {"post_per_layer_input_norm", "post_norm"}});
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "altup.correct_output_scale"),
                   block_name(i, "altup_correct_scale.weight"));
  }
  m.attention();
  m.feed_forward();
}

}  // namespace

const ArchDef& gemma3n_arch() {
  static constexpr const char* kNames[] = {"gemma3n"};
  static constexpr const char* kCheckpoints[] = {"Gemma3nForConditionalGeneration",
                                                 "Gemma3nForCausalLM"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
