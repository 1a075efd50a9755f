// DFlash: a head that drafts for another file's model, a whole block of tokens at once. A row of a
// block is a token: the last one of the text, then masks. It goes through a few layers whose keys
// and values are those of the block, and those of the text, which are made of the main model's
// states g = norm(fc·[states of some layers]) in place of what enters the layer:
//   h = norm(x);  x ← x + attention(h → queries; h or g → keys, values);  x ← x + ffn(norm(x))
// The rows of a block see each other. The norm of x gives the logits of the row's own place (Chen
// et al. 2026). DSpark adds W2·W1[t] to the logits behind the token t, and may have the first row
// give a token as well.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/core/file.h"
#include "engine/model/blocks.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_rope.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/draft_vocabulary.h"
#include "engine/model/hparams.h"
#include "engine/model/shared_kv_decoder.h"

namespace infer {
namespace {

constexpr const char* kFirst = "markov_w1.weight";
constexpr const char* kMaskKey = "tokenizer.ggml.mask_token_id";
constexpr int64_t kMostRows = 256;  // of a block

/// What the logits get for the token before: a row of a table, times a matrix.
class Transitions final : public Model {
 public:
  Transitions(const ModelInfo& head, int64_t rank, int64_t tokens) : rank_(rank), tokens_(tokens) {
    info_.architecture = head.architecture;
    info_.vocabulary = head.vocabulary;
    info_.context = head.context;
    info_.embedding = rank;
  }

  void build(ModelBuilder& m) const override {
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId table = m.weight(kFirst, {rank_, tokens_});
    const ValueId x = m.g.add(op::Embed{}, {m.g.input(StepInput::tokens), table});
    m.g.set_unit({UnitKind::output, -1});
    m.g.output(m.linear(m.select_outputs(x), "markov_w2", info_.vocabulary), "logits");
  }

 private:
  int64_t rank_;
  int64_t tokens_;  ///< of the main model
};

class Dflash final : public Model {
 public:
  Dflash(HparamReader& r, const ModelInfo& main, std::vector<int64_t>& layers) {
    params_ = read_decoder_params(r);
    info_ = decoder_info(r, params_);
    info_.context = main.context;  // how far it was trained changes only what it proposes
    info_.ropes = {read_rope(r, params_.head_dim)};
    info_.ropes[0].factors = weight_index(r.source(), "rope_freqs.weight");
    read_states(r, main, layers);
    read_block(r, main);
    vocabulary_ = read_draft_vocabulary(r, main, params_.embedding, true);
    main_vocabulary_ = main.vocabulary;
    info_.vocabulary = vocabulary_.rows;
    info_.token_ids = vocabulary_.ids;
    read_layers(r);
    read_scales(r);
    const Weight* first = r.source().find(kFirst);
    if (first != nullptr) rank_ = first->desc.shape[0];
  }

  std::unique_ptr<Model> transitions() const override {
    if (rank_ == 0) return nullptr;
    return std::make_unique<Transitions>(info_, rank_, main_vocabulary_);
  }

  void build(ModelBuilder& m) const override {
    const int64_t width = params_.embedding;
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId table = m.weight(vocabulary_.table, {width, main_vocabulary_});
    ValueId x = m.g.add(op::Embed{embedding_scale_}, {m.g.input(StepInput::tokens), table});
    m.g.set_unit({UnitKind::attention, 0});
    // Zeros in rows of a block.
    const ValueId states =
        m.rms_norm(m.linear(m.g.input(StepInput::hidden, 0, info_.takes_hidden), "fc", width),
                   "enc.output_norm.weight", params_.eps);
    for (int64_t layer = 0; layer < params_.layers; ++layer) {
      const auto norm = [&](ValueId v, const char* name) {
        return m.rms_norm(v, block_name(layer, name) + ".weight", params_.eps);
      };
      const auto part = [&](ValueId to, ValueId made, const char* name) {
        return m.add(to, m.has(block_name(layer, name) + ".weight") ? norm(made, name) : made);
      };
      m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
      ValueId h = attend(m, norm(x, "attn_norm"), states, layer);
      if (layer + 1 == params_.layers) {  // from here on only the rows whose logits are wanted
        h = m.select_outputs(h);
        x = m.select_outputs(x);
      }
      h = m.linear(h, block_name(layer, "attn_output"), width);
      if (value_scale_ != 1.0f) h = m.g.add(op::Scale{value_scale_}, {h});
      x = part(x, h, "post_attention_norm");
      m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
      const int64_t inner = params_.feed_forward[static_cast<size_t>(layer)];
      x = part(x, feed_forward_block(m, norm(x, "ffn_norm"), layer, inner, glu_), "post_ffw_norm");
      const float last = output_scales_[static_cast<size_t>(layer)];
      if (last != 1.0f) x = m.g.add(op::Scale{last}, {x});
    }
    x = m.rms_norm(x, "output_norm.weight", params_.eps);
    m.g.set_unit({UnitKind::output, -1});
    x = m.linear(x, vocabulary_.output, info_.vocabulary);
    if (logit_scale_ != 1.0f) x = m.g.add(op::Scale{logit_scale_}, {x});
    if (softcap_ > 0) x = m.g.add(op::Softcap{softcap_}, {x});
    m.g.output(x, "logits");
  }

 private:
  static Status bad(const HparamReader& r, const std::string& what) {
    return error(StatusCode::bad_file, "{}: {}", r.metadata().source(), what);
  }

  /// The layers of the main model whose states it takes.
  void read_states(HparamReader& r, const ModelInfo& main, std::vector<int64_t>& layers) {
    const std::string key = r.architecture() + ".target_layers";
    const auto found = r.metadata().get_ints(key, 0, main.layers);
    if (!found) return r.set_error(found.error());
    if (!*found || (*found)->empty()) {
      return r.set_error(bad(r, fmt::format("key '{}' is missing or empty", key)));
    }
    layers = **found;
    info_.takes_hidden = std::ssize(layers) * main.embedding;
    info_.takes_own = 1;  // 1 in rows of a block
  }

  void read_block(HparamReader& r, const ModelInfo& main) {
    const auto mask = r.metadata().get_int(kMaskKey, 0, main.vocabulary - 1);
    if (!mask) return r.set_error(mask.error());
    if (!*mask) return r.set_error(bad(r, fmt::format("key '{}' is missing", kMaskKey)));
    DraftBlock block;
    block.mask = static_cast<int32_t>(**mask);
    block.rows = r.get_int("block_size", 16, 2, kMostRows);
    block.causal = r.get_bool("attention.causal", false);
    const bool spark = r.source().find(kFirst) != nullptr;
    block.from_first = spark && r.get_bool("sample_from_anchor", true);
    info_.block = block;
    const auto refuse = [&](const char* what) {
      r.set_error(
          error(StatusCode::unsupported, "{}: {} are not supported", r.metadata().source(), what));
    };
    if (r.source().find("selector_hidden.weight") != nullptr) {
      refuse("the convolutions and the selector of DFlash 2 (tensor 'selector_hidden.weight')");
    }
    if (r.get_int("hyper_connection.count", 0, 0, kMaxWidth) > 0) {
      refuse("draft heads with the layers of DeepSeek V4 (key 'dflash.hyper_connection.count')");
    }
  }

  void read_layers(HparamReader& r) {
    const auto window =
        static_cast<int32_t>(r.get_int("attention.sliding_window", 0, 0, INT32_MAX));
    const std::vector<bool> sliding = r.sliding_layers(params_.layers, 0);
    for (int64_t layer = 0; layer < params_.layers; ++layer) {
      const auto i = static_cast<size_t>(layer);
      if (sliding[i]) info_.kv_layers[i].window = window;
      output_scales_.push_back(read_output_scale(r, layer));
    }
    if (params_.head_dim != params_.value_dim) {
      r.set_error(bad(r, "keys and values of different widths"));
    }
  }

  void read_scales(HparamReader& r) {
    const auto number = [&](const char* key, double absent) {
      const auto value = static_cast<float>(r.get_float(key, absent));
      return value == 0 ? static_cast<float>(absent) : value;
    };
    embedding_scale_ = number("embedding_scale", 1.0);
    score_scale_ = number("attention.scale", 1.0 / std::sqrt(double(params_.head_dim)));
    value_scale_ = number("attention.value_scale", 1.0);
    const std::string activation = r.get_string("hidden_activation", "silu");
    if (activation == "gelu" || activation == "gelu_pytorch_tanh") {
      glu_.kind = op::Glu::Kind::gelu_tanh;
    } else if (activation != "silu") {
      r.set_error(error(StatusCode::unsupported, "{}: hidden_activation '{}' is not supported",
                        r.metadata().source(), printable(activation)));
    }
    // Transitions belong to what the output makes.
    if (r.source().find(kFirst) != nullptr) return;
    logit_scale_ = number("logit_scale", 1.0);
    softcap_ = number("final_logit_softcapping", 0.0);
  }

  /// What the heads make of h, the normed rows. Rows that are no part of a block have `states` in
  /// place of it for their keys and values.
  ValueId attend(ModelBuilder& m, ValueId h, ValueId states, int64_t layer) const {
    const auto i = static_cast<size_t>(layer);
    const int64_t head = params_.head_dim;
    const int64_t kv_heads = params_.kv_heads[i];
    const int64_t heads = params_.layer_heads[i];
    const ValueId in_block = m.g.input(StepInput::hidden, 1, 1);
    const ValueId both = m.add(m.g.add(op::MoeSpread{}, {h, in_block}), states);
    const auto norm = [&](ValueId v, const char* name) {
      return m.rms_norm(v, block_name(layer, name) + ".weight", params_.eps);
    };
    const auto project = [&](ValueId from, const char* name, int64_t n) {
      return m.g.split_heads(m.linear(from, block_name(layer, name), n * head), n);
    };
    ValueId q = project(h, "attn_q", heads);
    ValueId k = project(both, "attn_k", kv_heads);
    const bool shared = !m.has(block_name(layer, "attn_v.weight"));
    const ValueId v = shared ? m.g.add(op::RmsNorm{params_.eps}, {k, kNoValue})
                             : project(both, "attn_v", kv_heads);
    q = m.rope(norm(q, "attn_q_norm"), op::Rope::Style::half_split);
    k = m.rope(norm(k, "attn_k_norm"), op::Rope::Style::half_split);
    const op::Attention attention{static_cast<int32_t>(layer), score_scale_, 0.0f,
                                  info_.kv_layers[i].window};
    const ValueId sinks = m.optional_weight(block_name(layer, "attn_sinks.weight"), {heads});
    return m.attention(q, k, v, attention, sinks);
  }

  DecoderParams params_;
  int64_t main_vocabulary_ = 0;
  int64_t rank_ = 0;  ///< of the transitions; 0: there are none
  DraftVocabulary vocabulary_;
  std::vector<float> output_scales_;  ///< by layer
  op::Glu glu_;
  float embedding_scale_ = 1.0f;
  float score_scale_ = 1.0f;
  float value_scale_ = 1.0f;
  float logit_scale_ = 1.0f;
  float softcap_ = 0.0f;
};

Result<std::unique_ptr<Model>> draft(const WeightSource& source, const ModelInfo& main,
                                     std::vector<int64_t>& layers) {
  HparamReader r(source, HparamReader::Part::draft);
  auto model = std::make_unique<Dflash>(r, main, layers);
  if (!r.status().ok()) return tl::unexpected(r.status());
  return model;
}

/// Of keys that stand in the section "dflash_config" or beside it: the one that is there.
std::string place_of(CheckpointMap& m, const std::string& key) {
  const std::string inner = "dflash_config." + key;
  return m.config.has(inner) ? inner : key;
}

/// Layers are counted as in the file: by what enters them. Configurations count what leaves them,
/// those of `speculators` do not.
void map_states(CheckpointMap& m) {
  std::vector<int64_t> layers = m.config.get_ints("aux_hidden_state_layer_ids");
  if (layers.empty()) {
    layers = m.config.get_ints(place_of(m, "target_layer_ids"));
    for (int64_t& layer : layers) layer = std::clamp<int64_t>(layer, -1, INT32_MAX - 1) + 1;
  }
  m.config.require(!layers.empty(), "a draft head without target_layer_ids");
  m.keys.set_ints("target_layers", layers);
}

void map_block(CheckpointMap& m) {
  const std::string mask = place_of(m, "mask_token_id");
  m.keys.set_whole(kMaskKey, static_cast<uint32_t>(m.config.need_int(mask, 0, INT32_MAX)));
  m.keys.set_int("block_size", m.config.get_int(place_of(m, "block_size"), 16, 2, kMostRows));
  const bool causal =
      m.config.get_bool("is_causal", m.config.get_bool("dflash_config.causal", false));
  if (causal) m.keys.set_bool("attention.causal", true);
  m.config.require(m.config.get_bool("rope_is_neox_style", true), "rope_is_neox_style false");
}

/// `before`: the window counts the tokens before a row, as transformers' DFlash does.
void map_windows(CheckpointMap& m, bool before) {
  const bool all = m.config.get_bool("dflash_config.use_swa", false);
  const int64_t usual = m.config.get_int("sliding_window", 0, 0, INT32_MAX - 1);
  const int64_t window = m.config.get_int("dflash_config.swa_window_size", usual, 0, INT32_MAX - 1);
  const bool used = all || before || m.config.get_bool("use_sliding_window", false);
  if (!used || window == 0) return;
  m.keys.set_int("attention.sliding_window", window + (before ? 1 : 0));
  if (!all) {
    map_sliding_layers(m, 0);
  } else {
    m.keys.set_flags("attention.sliding_window_pattern",
                     std::vector<bool>(static_cast<size_t>(m.layer_count()), true));
  }
}

/// DSpark: what is added for the token before, and what tells how sure the head is.
void map_transitions(CheckpointMap& m) {
  const std::string kind = m.config.get_string("dflash_config.markov_head_type",
                                               m.config.get_string("markov_head_type", "vanilla"));
  m.config.require(kind == "vanilla", fmt::format("markov_head_type '{}'", printable(kind)));
  const bool of_speculators = m.config.has("transformer_layer_config") ||
                              m.config.has("speculators_model_type") ||
                              m.config.has("aux_hidden_state_layer_ids");
  m.keys.set_bool("sample_from_anchor", m.config.get_bool("sample_from_anchor", !of_speculators));
  m.keys.set_bool("has_confidence_head", m.tensors.has("confidence_head.proj.weight") ||
                                             m.tensors.has("confidence_proj.weight"));
  for (const auto& [from, to] : {std::pair{"markov_head.markov_w1.weight", kFirst},
                                 {"markov_head.markov_w2.weight", "markov_w2.weight"},
                                 {"confidence_head.proj.weight", "conf_proj.weight"},
                                 {"confidence_head.proj.bias", "conf_proj.bias"},
                                 {"confidence_proj.weight", "conf_proj.weight"},
                                 {"confidence_proj.bias", "conf_proj.bias"}}) {
    m.tensors.copy(from, to);
  }
}

/// The tables, which may be those of the model, and the tokens of an output that has few.
void map_vocabulary(CheckpointMap& m, bool spark) {
  if (m.config.has("vocab_size")) {
    m.keys.set_int("vocab_size", m.config.get_int("vocab_size", 1, 1, INT32_MAX));
  }
  m.tensors.ignore("t2d");               // whether a token of the model has one in the head
  m.tensors.ignore_prefix("verifier_");  // of the model, kept for training
  m.tensors.copy("embed_tokens.weight", "token_embd.weight");
  const int64_t whole = m.config.get_int("vocab_size", 0, 0, INT32_MAX);
  const bool few = m.config.get_int("draft_vocab_size", whole, 0, INT32_MAX) < whole;
  if (spark && !few) {
    m.tensors.ignore("lm_head.weight");  // the model's
  } else {
    m.tensors.copy("lm_head.weight", "output.weight");
  }
  if (!m.tensors.has("d2t")) return;
  // The file holds how far the ids lie apart.
  std::vector<float> ids = m.tensors.values("d2t", m.tensors.shape_of("d2t")[0]);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] += static_cast<float>(i);
  m.tensors.put_values("d2t", std::move(ids));
}

void map_scales(CheckpointMap& m) {
  for (const auto& [from, to] : {std::pair{"output_multiplier", "logit_scale"},
                                 {"final_logit_softcapping", "final_logit_softcapping"},
                                 {"input_embedding_scale", "embedding_scale"},
                                 {"attention_value_scale", "attention.value_scale"}}) {
    const std::string key = place_of(m, from);
    const double value = m.config.get_float(key, 0.0);
    if (value > 0) m.keys.set_float(to, value);
  }
}

/// What drafts for Gemma 4 has heads of the size of those without a window, keys that are values as
/// well, and norms behind both parts of a layer.
void begin_gemma(CheckpointMap& m) {
  m.config.require(m.config.get_bool("attention_k_eq_v", false), "attention_k_eq_v false");
  m.config.require(!m.config.get_bool("enable_moe_block", false), "enable_moe_block");
  m.config.require(m.config.get_float("final_logit_softcapping", 0.0) == 0,
                   "final_logit_softcapping");
  m.config.assume("hidden_activation", std::string("gelu_pytorch_tanh"));
  for (const auto& [own, usual] : {std::pair{"global_head_dim", "head_dim"},
                                   {"num_global_key_value_heads", "num_key_value_heads"}}) {
    m.config.replace(usual, m.config.need_int(own, 1, kMaxWidth));
  }
  m.begin({.architecture = "dflash", .activation = "gelu_pytorch_tanh", .rope_base = 1e6});
  require_layer_types(m, [](int64_t) { return false; });
  const auto width = static_cast<double>(m.config.need_int("hidden_size", 1, kMaxWidth));
  m.keys.set_float("embedding_scale", std::sqrt(width));
  m.keys.set_float("attention.scale", 1.0);
  m.keys.set_string("hidden_activation", "gelu_pytorch_tanh");
}

void map(CheckpointMap& m) {
  const std::string& kind = m.config.checkpoint();
  m.config.require(kind != "DFlash2DraftModel", "the convolutions and the selector of DFlash 2");
  const bool gemma = kind == "Gemma4DSparkModel";
  const bool spark = m.tensors.has("markov_head.markov_w1.weight");
  if (gemma) {
    begin_gemma(m);
  } else {
    m.begin({.architecture = "dflash"});
  }
  map_states(m);
  map_block(m);
  map_windows(m, kind == "MuseGlimmerAssistantModel");
  map_scales(m);
  map_vocabulary(m, spark);
  if (spark) map_transitions(m);
  for (const auto& [from, to] : {std::pair{"fc", "fc"},
                                 {"encoder.fc", "fc"},
                                 {"hidden_norm", "enc.output_norm"},
                                 {"encoder.output_norm_enc", "enc.output_norm"},
                                 {"norm", "output_norm"}}) {
    m.tensors.copy(from + std::string(".weight"), to + std::string(".weight"));
  }
  m.layers({{"input_layernorm", "attn_norm"},
            {"post_attention_layernorm", gemma ? "post_attention_norm" : "ffn_norm"},
            {"pre_feedforward_layernorm", "ffn_norm"},
            {"post_feedforward_layernorm", "post_ffw_norm"},
            {"self_attn.q_norm", "attn_q_norm"},
            {"self_attn.k_norm", "attn_k_norm"}});
  m.attention();
  m.feed_forward();
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    m.tensors.copy(layer_name(i, "layer_scalar"), block_name(i, "layer_output_scale.weight"));
    for (const char* name : {"self_attn.attention_sink_bias", "self_attn.sinks"}) {
      m.tensors.copy(layer_name(i, name), block_name(i, "attn_sinks.weight"));
    }
  }
}

}  // namespace

const ArchDef& dflash_arch() {
  static constexpr const char* kNames[] = {"dflash"};
  static constexpr const char* kCheckpoints[] = {
      "DFlashDraftModel", "DFlash2DraftModel",    "MuseGlimmerAssistantModel",
      "Qwen3DSparkModel", "DSparkDraftModel",     "DSparkSpeculator",
      "LingDSparkModel",  "Lfm2DSparkDraftModel", "Gemma4DSparkModel"};
  static const ArchDef def{
      .names = kNames, .create = nullptr, .checkpoints = kCheckpoints, .map = map, .draft = draft};
  return def;
}

}  // namespace infer
