// ModernBERT (Warner et al. 2024): an encoder with LayerNorm before each block, RoPE and GEGLU.
// Every third layer, from the first on, sees all of a text; the others a window to both sides, with
// a RoPE base of their own. The first layer's attention has no norm.
#include "engine/model/blocks.h"
#include "engine/model/checkpoint.h"
#include "engine/model/checkpoint_window.h"
#include "engine/model/hparams.h"

#include <cmath>

namespace infer {
namespace {

class ModernBert : public Model {
 public:
  explicit ModernBert(HparamReader& r) {
    params_ = read_decoder_params(r);
    eps_ = r.epsilon("attention.layer_norm_epsilon");
    info_ = decoder_info(r, params_);
    info_.causal = false;
    info_.gelu_classifier = true;
    info_.classifier_eps = eps_;
    info_.rank_pooling = Pooling::mean;
    RopeSpec global = read_rope(r, params_.head_dim, 160000.0);
    info_.ropes = {global, unscaled(global, r.get_float("rope.freq_base_swa", 10000.0))};
    const std::string activation = r.get_string("hidden_activation", "gelu");
    if (activation != "gelu" && activation != "silu") {
      r.set_error(error(StatusCode::unsupported,
                        "{}: hidden_activation: expected gelu or silu, found {}",
                        r.metadata().source(), activation));
    }
    glu_.kind = activation == "silu" ? op::Glu::Kind::silu : op::Glu::Kind::gelu;
    const auto window =
        static_cast<int32_t>(r.get_int("attention.sliding_window", 128, 0, INT32_MAX));
    const std::vector<bool> sliding = sliding_layers(r);
    for (int64_t layer = 0; layer < params_.layers; ++layer) {
      AttentionBlock block{.layer = layer,
                           .heads = params_.heads,
                           .kv_heads = params_.kv_heads[static_cast<size_t>(layer)],
                           .head_dim = params_.head_dim,
                           .value_dim = params_.value_dim,
                           .scale = 1.0f / std::sqrt(static_cast<float>(params_.head_dim)),
                           .style = op::Rope::Style::half_split};
      if (sliding[static_cast<size_t>(layer)]) {
        block.window = window;
        block.rope = 1;
      }
      attention_.push_back(block);
    }
  }

  void build(ModelBuilder& m) const override {
    ValueId x = m.layer_norm(m.embed_tokens(), "token_embd_norm", eps_);
    for (int64_t layer = 0; layer < params_.layers; ++layer) {
      m.g.set_unit({UnitKind::attention, static_cast<int32_t>(layer)});
      const std::string norm = block_name(layer, "attn_norm");
      ValueId h = m.has(norm + ".weight") ? m.layer_norm(x, norm, eps_) : x;
      h = attention_block(m, h, attention_[static_cast<size_t>(layer)]);
      if (layer + 1 == params_.layers) {
        h = m.select_outputs(h);
        x = m.select_outputs(x);
      }
      x = m.add(x, h);
      m.g.set_unit({UnitKind::feed_forward, static_cast<int32_t>(layer)});
      h = m.layer_norm(x, block_name(layer, "ffn_norm"), eps_);
      const int64_t width = params_.feed_forward[static_cast<size_t>(layer)];
      x = m.add(x, feed_forward_block(m, h, layer, width, glu_));
    }
    m.output_embedding(m.layer_norm(x, "output_norm", eps_));
  }

 private:
  /// A number P in the key means that all but the first of every P layers have the window.
  std::vector<bool> sliding_layers(HparamReader& r) const {
    const std::string key = "attention.sliding_window_pattern";
    const MetaValue* value = r.metadata().find(r.architecture() + "." + key);
    if (value != nullptr && std::holds_alternative<std::vector<bool>>(*value)) {
      return r.sliding_layers(params_.layers, 1);
    }
    const int64_t period = r.get_int(key, 3, 1, 1024);
    std::vector<bool> sliding;
    for (int64_t i = 0; i < params_.layers; ++i) sliding.push_back(i % period != 0);
    return sliding;
  }

  DecoderParams params_;
  float eps_ = 1e-5f;
  op::Glu glu_;
  std::vector<AttentionBlock> attention_;  ///< by layer
};

Result<std::unique_ptr<Model>> create(const WeightSource& source) {
  HparamReader r(source);
  auto model = std::make_unique<ModernBert>(r);
  if (!r.status().ok()) return tl::unexpected(r.status());
  return model;
}

void map(CheckpointMap& m) {
  const int64_t period = m.config.get_int("global_attn_every_n_layers", 3, 1, 1024);
  m.config.assume("hidden_activation", std::string("gelu"));
  m.config.assume("layer_norm_eps", m.config.get_float("norm_eps", 1e-5));
  m.config.assume("rope_theta", m.config.get_float("global_rope_theta", 160000.0));
  m.begin({.architecture = "modern-bert",
           .activation = "gelu",
           .layer_norms = true,
           .table = "embeddings.tok_embeddings.weight"});
  for (const char* bias : {"norm_bias", "attention_bias", "mlp_bias"}) {
    m.config.require(!m.config.get_bool(bias, false), bias);
  }
  m.keys.set_bool("attention.causal", false);
  m.keys.set_int("attention.sliding_window",
                 m.config.get_int("local_attention", 128, 0, INT32_MAX));
  m.keys.set_float("rope.freq_base_swa",
                   m.config.get_float("rope_parameters.sliding_attention.rope_theta",
                                      m.config.get_float("local_rope_theta", 10000.0)));
  if (m.config.has("layer_types")) {
    map_sliding_layers(m, 0);
  } else {
    m.keys.set_int("attention.sliding_window_pattern", period);
  }
  m.tensors.copy("embeddings.tok_embeddings.weight", "token_embd.weight");
  m.tensors.copy("embeddings.norm.weight", "token_embd_norm.weight");
  m.tensors.copy("final_norm.weight", "output_norm.weight");
  m.layers({{"attn_norm", "attn_norm"},
            {"attn.Wqkv", "attn_qkv"},
            {"attn.Wo", "attn_output"},
            {"mlp_norm", "ffn_norm"},
            {"mlp.Wi", "ffn_up"},
            {"mlp.Wo", "ffn_down"}});
  if (m.config.checkpoint() == "ModernBertForSequenceClassification") {
    m.classifier({{"head.dense", "cls"}, {"head.norm", "cls.norm"}, {"classifier", "cls.output"}});
    const std::string pooling = m.config.get_string("classifier_pooling", "cls");
    const auto known = pooling_named(pooling);
    m.config.require(known == Pooling::cls || known == Pooling::mean, "this classifier_pooling");
    m.config.require(!m.config.get_bool("classifier_bias", false), "classifier_bias");
    m.keys.set_int("classifier.pooling_type", static_cast<int64_t>(known.value_or(Pooling::cls)));
    return;
  }
  m.tensors.ignore_prefix("head.");  // of models that fill in masked words
  m.tensors.ignore_prefix("decoder.");
}

}  // namespace

const ArchDef& modern_bert_arch() {
  static constexpr const char* kNames[] = {"modern-bert"};
  static constexpr const char* kCheckpoints[] = {"ModernBertModel", "ModernBertForMaskedLM",
                                                 "ModernBertForSequenceClassification"};
  static const ArchDef def{kNames, create, kCheckpoints, map};
  return def;
}

}  // namespace infer
