// EAGLE-3: a head that drafts for another file's model, from the hidden states of three of its
// layers. For the token t at a position and the features g of the position before it:
//   e = norm(embedding of t);  ĝ = norm(g);  x = g + attention([e; ĝ]);  y = x + feed_forward(x)
// The norm of y gives the logits, over a vocabulary of its own. g is fc·[low; middle; high] of the
// main model's states, and y itself for the token drafted next. Li et al. 2025.
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/core/file.h"
#include "engine/model/blocks.h"
#include "engine/model/checkpoint.h"
#include "engine/model/draft_vocabulary.h"
#include "engine/model/hparams.h"

namespace infer {
namespace {

constexpr int64_t kLayers = 3;  // of the main model, whose hidden states it takes

class Eagle3 final : public Model {
 public:
  Eagle3(HparamReader& r, const ModelInfo& main, std::vector<int64_t>& layers) {
    params_ = read_decoder_params(r);
    if (params_.layers != 1) {
      r.set_error(error(StatusCode::bad_file, "{}: key 'eagle3.block_count': expected 1, found {}",
                        r.metadata().source(), params_.layers));
    }
    info_ = decoder_info(r, params_);
    info_.context = main.context;  // how far it was trained changes only what it proposes
    info_.ropes = {read_rope(r, params_.head_dim)};
    info_.ropes[0].factors = weight_index(r.source(), "rope_freqs.weight");
    info_.takes_own = params_.embedding;
    info_.takes_hidden = kLayers * main.embedding;
    norm_first_ = r.get_bool("norm_before_fc", false);
    norm_residual_ = r.get_bool("norm_before_residual", false);
    read_layers(r, main, layers);
    vocabulary_ = read_draft_vocabulary(r, main, params_.embedding);
    main_vocabulary_ = main.vocabulary;
    info_.vocabulary = vocabulary_.rows;
    info_.token_ids = vocabulary_.ids;
  }

  void build(ModelBuilder& m) const override {
    const int64_t width = params_.embedding;
    const auto norm = [&](ValueId x, const char* name) {
      return m.rms_norm(x, std::string(name) + ".weight", params_.eps);
    };
    m.g.set_unit({UnitKind::embedding, -1});
    const ValueId table = m.weight(vocabulary_.table, {width, main_vocabulary_});
    ValueId token = m.g.add(op::Embed{}, {m.g.input(StepInput::tokens), table});
    m.g.set_unit({UnitKind::attention, 0});
    ValueId features = m.g.input(StepInput::hidden, 0, info_.takes_hidden);
    if (norm_first_) features = norm(features, "enc.output_norm");
    features = m.add(m.linear(features, "fc", width), m.g.input(StepInput::hidden, 1, width));
    token = norm(token, "blk.0.attn_norm");
    const ValueId normed = norm(features, "blk.0.attn_norm_2");
    AttentionBlock block;
    block.heads = params_.heads;
    block.kv_heads = params_.kv_heads.front();
    block.head_dim = params_.head_dim;
    block.value_dim = params_.value_dim;
    block.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(params_.head_dim)));
    block.width = width;
    const ValueId mixed = attention_block(m, m.g.add(op::Concat{}, {token, normed}), block);
    // From here on only the rows whose logits are wanted.
    ValueId x =
        m.add(m.select_outputs(norm_residual_ ? normed : features), m.select_outputs(mixed));
    m.g.set_unit({UnitKind::feed_forward, 0});
    x = m.add(
        x, feed_forward_block(m, norm(x, "blk.0.ffn_norm"), 0, params_.feed_forward.front(), {}));
    m.g.output(x, "hidden");
    x = norm(x, "output_norm");
    m.g.set_unit({UnitKind::output, -1});
    m.g.output(m.linear(x, vocabulary_.output, info_.vocabulary), "logits");
  }

 private:
  static Status bad(const HparamReader& r, const std::string& what) {
    return error(StatusCode::bad_file, "{}: {}", r.metadata().source(), what);
  }

  /// The layers of the main model whose states it takes.
  void read_layers(HparamReader& r, const ModelInfo& main, std::vector<int64_t>& layers) const {
    const int64_t width = r.get_int("target_hidden_size", main.embedding, 1, INT32_MAX);
    if (width != main.embedding) {
      r.set_error(bad(r, fmt::format("key 'eagle3.target_hidden_size': the draft model is for "
                                     "hidden states of {} elements, those of the model have {}",
                                     width, main.embedding)));
    }
    layers = {std::min<int64_t>(2, main.layers), main.layers / 2,
              std::max<int64_t>(main.layers - 3, 0)};
    if (r.has("target_layers")) layers = r.per_layer("target_layers", kLayers, 0, 0, main.layers);
  }

  DecoderParams params_;
  bool norm_first_ = false;     ///< a norm of the main model's states before "fc"
  bool norm_residual_ = false;  ///< the sum begins with the normed features
  int64_t main_vocabulary_ = 0;
  DraftVocabulary vocabulary_;
};

Result<std::unique_ptr<Model>> draft(const WeightSource& source, const ModelInfo& main,
                                     std::vector<int64_t>& layers) {
  HparamReader r(source, HparamReader::Part::draft);
  auto model = std::make_unique<Eagle3>(r, main, layers);
  if (!r.status().ok()) return tl::unexpected(r.status());
  return model;
}

/// Layers are counted as in the file: from the embedding, or in the section "eagle_config" from
/// what leaves the first layer (SGLang).
void map_target_layers(CheckpointMap& m) {
  constexpr const char* kKey = "eagle_aux_hidden_state_layer_ids";
  std::vector<int64_t> layers = m.config.get_ints(kKey);
  if (layers.empty()) {
    layers = m.config.get_ints(std::string("eagle_config.") + kKey);
    for (int64_t& layer : layers) layer = std::clamp<int64_t>(layer, -1, INT32_MAX) + 1;
  }
  if (!layers.empty()) m.keys.set_ints("target_layers", layers);
}

void map(CheckpointMap& m) {
  const std::string kind = m.config.get_string("speculators_model_type", "eagle3");
  m.config.require(kind == "eagle3", fmt::format("speculators_model_type '{}'", printable(kind)));
  // vLLM reads its own layout so.
  if (m.config.has("speculators_model_type")) m.config.assume("norm_before_residual", true);
  m.tensors.also_named("midlayer.", "layers.0.");
  m.begin({.architecture = "eagle3"});
  for (const char* key : {"norm_before_residual", "norm_before_fc"}) {
    if (m.config.has(key)) m.keys.set_bool(key, m.config.get_bool(key, false));
  }
  m.keys.set_int("vocab_size", m.config.get_int("vocab_size", 1, 1, INT32_MAX));
  if (m.config.has("target_hidden_size")) {
    m.keys.set_int("target_hidden_size", m.config.need_int("target_hidden_size", 1, INT32_MAX));
  }
  map_target_layers(m);
  for (const auto& [from, to] : {std::pair{"embed_tokens", "token_embd"},
                                 {"fc", "fc"},
                                 {"input_norm", "enc.output_norm"},
                                 {"norm", "output_norm"},
                                 {"lm_head", "output"}}) {
    m.tensors.copy(from + std::string(".weight"), to + std::string(".weight"));
  }
  m.layers({{"input_layernorm", "attn_norm"},
            {"hidden_norm", "attn_norm_2"},
            {"post_attention_layernorm", "ffn_norm"}});
  m.attention();
  m.feed_forward();
  m.tensors.ignore("t2d");               // whether a token of the model has one in the head
  m.tensors.ignore_prefix("verifier_");  // of the model, kept for training
  if (!m.tensors.has("d2t")) return;
  // The file holds how far the ids lie apart.
  std::vector<float> ids = m.tensors.values("d2t", m.tensors.shape_of("d2t")[0]);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] += static_cast<float>(i);
  m.tensors.put_values("d2t", std::move(ids));
}

}  // namespace

const ArchDef& eagle3_arch() {
  static constexpr const char* kNames[] = {"eagle3"};
  static constexpr const char* kCheckpoints[] = {"LlamaForCausalLMEagle3", "Eagle3Speculator",
                                                 "Eagle3DraftModel"};
  static const ArchDef def{.names = kNames,
                           .create = nullptr,
                           .checkpoints = kCheckpoints,
                           .map = map,
                           .draft = draft,
                           .layout = {.interleaves = true}};
  return def;
}

}  // namespace infer
