// BERT and its relatives: encoders with a LayerNorm behind each block.
//   x0 = norm(token + type + position);  h = norm(x + attention(x));  x = norm(h + feed_forward(h))
// BERT (Devlin et al. 2018) and RoBERTa (Liu et al. 2019) have learned positions and GELU; Nomic
// (Nussbaum et al. 2024) RoPE and SwiGLU, or experts in every few layers; Jina 2 (Günther et al.
// 2023) ALiBi and GEGLU; Jina 3 (Sturua et al. 2024) RoPE and GELU.
#include "engine/graph/alibi.h"
#include "engine/model/blocks.h"
#include "engine/model/checkpoint.h"
#include "engine/model/hparams.h"

#include <cmath>

namespace infer {
namespace {

class Bert : public Model {
 public:
  explicit Bert(HparamReader& r) {
    params_ = read_decoder_params(r);
    eps_ = r.epsilon("attention.layer_norm_epsilon");
    info_ = decoder_info(r, params_);
    info_.causal = false;
    info_.classifier_eps = eps_;
    const std::string& name = r.architecture();
    nomic_ = name.starts_with("nomic-bert");
    alibi_ = name == "jina-bert-v2";
    rotate_ = nomic_ || name == "jina-bert-v3";
    glu_ = name == "nomic-bert" || alibi_;
    if (rotate_) info_.ropes = {read_rope(r, params_.head_dim)};
    every_ = r.get_int("moe_every_n_layers", 0, 0, 1024);
    if (const Weight* table = r.source().find("position_embd.weight"); table != nullptr) {
      positions_ = table->desc.shape[1];
      info_.context = std::min(info_.context, positions_);
    }
    if (const Weight* table = r.source().find("token_types.weight"); table != nullptr) {
      types_ = table->desc.shape[1];
      info_.token_types = types_;
    }
  }

  void build(ModelBuilder& m) const override {
    ValueId x = m.embed_tokens();
    if (types_ > 0) x = m.add(x, row_of(m, StepInput::token_types, "token_types", types_));
    if (positions_ > 0) x = m.add(x, row_of(m, StepInput::slots, "position_embd", positions_));
    x = m.layer_norm(x, "token_embd_norm", eps_);
    for (int64_t layer = 0; layer < params_.layers; ++layer) {
      m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
      const ValueId before = x;
      ValueId h = attend(m, x, layer);
      if (layer + 1 == params_.layers) {
        h = m.select_outputs(h);
        x = m.select_outputs(x);
      }
      h = m.layer_norm(m.add(x, h), block_name(layer, "attn_output_norm"), eps_);
      m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
      const std::string second = block_name(layer, "attn_norm_2");
      if (m.has(second + ".weight")) {
        const ValueId from = layer + 1 == params_.layers ? m.select_outputs(before) : before;
        h = m.layer_norm(m.add(h, from), second, eps_);
      }
      x = m.layer_norm(m.add(h, feed_forward(m, h, layer)), block_name(layer, "layer_output_norm"),
                       eps_);
    }
    m.output_embedding(x);
  }

 private:
  ValueId row_of(ModelBuilder& m, StepInput index, const char* table, int64_t rows) const {
    const ValueId weight = m.weight(std::string(table) + ".weight", {params_.embedding, rows});
    return m.g.add(op::Embed{}, {m.g.input(index), weight});
  }

  ValueId attend(ModelBuilder& m, ValueId x, int64_t layer) const {
    const auto i = static_cast<size_t>(layer);
    AttentionBlock block{.layer = layer,
                         .heads = params_.heads,
                         .kv_heads = params_.kv_heads[i],
                         .head_dim = params_.head_dim,
                         .value_dim = params_.value_dim};
    auto [q, k, v] = project_qkv(m, x, block);
    if (m.has(block_name(layer, "attn_q_norm.weight"))) {
      q = m.layer_norm(q, block_name(layer, "attn_q_norm"), eps_);
      k = m.layer_norm(k, block_name(layer, "attn_k_norm"), eps_);
    }
    q = m.g.split_heads(q, block.heads);
    k = m.g.split_heads(k, block.kv_heads);
    v = m.g.split_heads(v, block.kv_heads);
    if (rotate_) {
      q = m.rope(q, op::Rope::Style::half_split);
      k = m.rope(k, op::Rope::Style::half_split);
    }
    const float scale = 1.0f / std::sqrt(static_cast<float>(params_.head_dim));
    const ValueId mixed =
        m.text_attention(q, k, v, {.scale = scale, .alibi = alibi_ ? kUsualAlibi : 0.0f});
    return m.linear(mixed, block_name(layer, "attn_output"), params_.embedding);
  }

  ValueId feed_forward(ModelBuilder& m, ValueId x, int64_t layer) const {
    const int64_t width = params_.feed_forward[static_cast<size_t>(layer)];
    if (every_ > 0 && layer % every_ == 1) return experts(m, x, layer, width);
    if (!glu_) return gelu_block(m, x, layer, width);
    const auto kind = nomic_ ? op::Glu::Kind::silu : op::Glu::Kind::gelu;
    return feed_forward_block(m, x, layer, width, op::Glu{kind});
  }

  /// Each a product, GELU and a product; the weights of the chosen ones are not normalised.
  ValueId experts(ModelBuilder& m, ValueId x, int64_t layer, int64_t width) const {
    const auto name = [&](const char* part) { return block_name(layer, part); };
    const ValueId logits = m.linear(x, name("ffn_gate_inp"), params_.experts);
    const op::MoeRoute route{.used = static_cast<int32_t>(params_.experts_used)};
    const std::vector<ValueId> routed = m.g.add_all(route, {logits, kNoValue, kNoValue, kNoValue});
    if (routed.size() != 2) return kNoValue;
    m.g.set_unit({UnitKind::experts, static_cast<int32_t>(layer)});
    const ValueId up = m.expert_linear(x, routed[0], name("ffn_up_exps"), width, params_.experts);
    const ValueId down = m.expert_linear(m.g.add(op::Gelu{}, {up}), routed[0],
                                         name("ffn_down_exps"), params_.embedding, params_.experts);
    const ValueId mixed = m.g.add(op::MoeCombine{}, {down, routed[1]});
    m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
    return mixed;
  }

  DecoderParams params_;
  float eps_ = 1e-12f;
  bool nomic_ = false;
  bool alibi_ = false;
  bool rotate_ = false;
  bool glu_ = false;
  int64_t every_ = 0;  ///< of so many layers the second one has experts; 0: none has
  int64_t positions_ = 0;
  int64_t types_ = 0;
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<Bert>(r);
  if (!r.status().ok()) return tl::unexpected(r.status());
  return model;
}

/// RoBERTa's first positions are those of its padding: what is written begins with the first one
/// that a text has.
void map_positions(CheckpointMap& m, bool padded) {
  const std::string name = "embeddings.position_embeddings.weight";
  const int64_t first = padded ? m.config.get_int("pad_token_id", 1, 0, 1 << 20) + 1 : 0;
  const auto shape = m.tensors.shape_of(name);
  const TensorView table = m.tensors.view(name, {shape[0], shape[1]});
  if (!m.tensors.ok()) return;
  if (first >= shape[1]) {
    m.config.fail_with(error(StatusCode::bad_file,
                             "{}: tensor '{}': expected more than {} rows, found {}",
                             m.config.source(), name, first, shape[1]));
    return;
  }
  m.tensors.put("position_embd.weight", table.sliced(1, first, shape[1] - first));
  m.keys.set_int("context_length", shape[1] - first);
}

/// The embeddings of words and types. llama.cpp wants to know how many types there are.
void map_embeddings(CheckpointMap& m) {
  const std::string types = "embeddings.token_type_embeddings.weight";
  m.tensors.copy("embeddings.word_embeddings.weight", "token_embd.weight");
  const int64_t count = m.tensors.has(types) ? m.tensors.shape_of(types)[1] : 1;
  m.tensors.copy(types, "token_types.weight");
  m.keys.set_whole("tokenizer.ggml.token_type_count", static_cast<uint32_t>(count));
}

/// What all of the family's classes in transformers have.
void map_encoder(CheckpointMap& m) {
  m.keys.set_bool("attention.causal", false);
  m.tensors.ignore("embeddings.position_ids");
  m.tensors.ignore_prefix("pooler.");
  m.tensors.ignore_prefix("lm_head.");  // of models that fill in masked words
  m.tensors.ignore_prefix("cls.");
  map_embeddings(m);
  for (const auto& [weight, bias] : {std::pair{".weight", ".bias"}, {".gamma", ".beta"}}) {
    m.tensors.copy(std::string("embeddings.LayerNorm") + weight, "token_embd_norm.weight");
    m.tensors.copy(std::string("embeddings.LayerNorm") + bias, "token_embd_norm.bias");
    for (int64_t i = 0; i < m.layer_count(); ++i) {
      for (const auto& [from, to] : {std::pair{"attention.output.LayerNorm", "attn_output_norm"},
                                     {"output.LayerNorm", "layer_output_norm"}}) {
        const std::string norm = fmt::format("encoder.layer.{}.{}", i, from);
        m.tensors.copy(norm + weight, fmt::format("blk.{}.{}.weight", i, to));
        m.tensors.copy(norm + bias, fmt::format("blk.{}.{}.bias", i, to));
      }
    }
  }
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    for (const auto& [from, to] : {std::pair{"attention.self.query", "attn_q"},
                                   {"attention.self.key", "attn_k"},
                                   {"attention.self.value", "attn_v"},
                                   {"attention.output.dense", "attn_output"},
                                   {"intermediate.dense", "ffn_up"},
                                   {"output.dense", "ffn_down"}}) {
      for (const char* part : {".weight", ".bias"}) {
        m.tensors.copy(fmt::format("encoder.layer.{}.{}", i, from) + part,
                       fmt::format("blk.{}.{}", i, to) + part);
      }
    }
  }
}

/// Nomic and Jina 3: "mixer" is the attention of the latter.
void map_fused(CheckpointMap& m, const char* architecture, const std::string& attention) {
  // The configuration of Nomic's own code has GPT-2's names.
  for (const auto& [from, to] : {std::pair{"n_embd", "hidden_size"},
                                 {"n_layer", "num_hidden_layers"},
                                 {"n_head", "num_attention_heads"},
                                 {"n_inner", "intermediate_size"},
                                 {"n_positions", "max_position_embeddings"}}) {
    if (m.config.has(from)) m.config.assume(to, m.config.need_int(from, 1, INT32_MAX));
  }
  if (m.config.has("rotary_emb_base")) {
    m.config.assume("rope_theta", m.config.get_float("rotary_emb_base", 10000.0));
  }
  m.config.assume("layer_norm_eps", m.config.get_float("layer_norm_epsilon", 1e-12));
  const bool nomic = architecture == std::string("nomic-bert");
  m.config.assume("hidden_act", std::string(nomic ? "silu" : "gelu"));
  m.config.require(!m.config.get_bool("prenorm", false), "prenorm");
  m.config.require(!nomic || m.config.get_string("activation_function", "swiglu") == "swiglu",
                   "this activation_function");
  m.config.require(m.config.get_float("rotary_emb_fraction", 1.0) == 1.0, "rotary_emb_fraction");
  m.config.require(
      !m.config.has("num_experts") || m.config.get_int("num_experts", 0, 0, 65536) == 0,
      "num_experts");
  m.begin({.architecture = architecture,
           .activation = nomic ? "silu" : "gelu",
           .layer_norms = true,
           .table = "embeddings.word_embeddings.weight"});
  m.keys.set_bool("attention.causal", false);
  m.tensors.ignore_prefix("pooler.");
  map_embeddings(m);
  const std::string block = attention + ".";
  const auto copy = [&](const std::string& from, const std::string& to) {
    for (const char* part : {".weight", ".bias"}) m.tensors.copy(from + part, to + part);
  };
  copy("emb_ln", "token_embd_norm");
  for (int64_t i = 0; i < m.layer_count(); ++i) {
    for (const auto& [from, to] : {std::pair{block + "Wqkv", "attn_qkv"},
                                   {block + "out_proj", "attn_output"},
                                   {std::string("norm1"), "attn_output_norm"},
                                   {std::string("norm2"), "layer_output_norm"},
                                   {std::string("mlp.fc11"), "ffn_up"},
                                   {std::string("mlp.fc12"), "ffn_gate"},
                                   {std::string("mlp.fc1"), "ffn_up"},
                                   {std::string("mlp.fc2"), "ffn_down"}}) {
      copy(fmt::format("encoder.layers.{}.{}", i, from), fmt::format("blk.{}.{}", i, to));
    }
  }
}

void map(CheckpointMap& m) {
  if (m.config.checkpoint() == "NomicBertModel") return map_fused(m, "nomic-bert", "attn");
  if (m.config.checkpoint() == "JinaEmbeddingsV3Model") {
    return map_fused(m, "jina-bert-v3", "mixer");
  }
  const std::string& name = m.config.checkpoint();
  const bool roberta = !name.starts_with("Bert");
  m.config.assume("hidden_act", std::string("gelu"));
  m.config.assume("layer_norm_eps", 1e-12);
  m.begin({.architecture = "bert",
           .activation = "gelu",
           .layer_norms = true,
           .table = "embeddings.word_embeddings.weight"});
  m.config.require(m.config.get_string("position_embedding_type", "absolute") == "absolute",
                   "this position_embedding_type");
  map_positions(m, roberta);
  if (name.ends_with("ForSequenceClassification")) {
    if (roberta) {
      m.classifier({{"classifier.dense", "cls"}, {"classifier.out_proj", "cls.output"}});
    } else {
      m.classifier({{"pooler.dense", "cls"}, {"classifier", "cls.output"}});
    }
  }
  map_encoder(m);
}

}  // namespace

const ArchDef& bert_arch() {
  static constexpr const char* kNames[] = {"bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2",
                                           "jina-bert-v3"};
  static constexpr const char* kCheckpoints[] = {
      "BertModel",       "BertForMaskedLM",       "BertForSequenceClassification",
      "RobertaModel",    "RobertaForMaskedLM",    "RobertaForSequenceClassification",
      "XLMRobertaModel", "XLMRobertaForMaskedLM", "XLMRobertaForSequenceClassification",
      "NomicBertModel",  "JinaEmbeddingsV3Model"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
