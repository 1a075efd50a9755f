#include "engine/model/checkpoint.h"

#include <algorithm>

#include "engine/core/file.h"
#include "engine/core/log.h"
#include "engine/model/arch.h"
#include "engine/model/checkpoint_rope.h"

namespace infer {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 20;

}  // namespace

CheckpointMap::CheckpointMap(const WeightSource& raw, bool interleave,
                             std::optional<DType> matrices)
    : config(raw.metadata()),
      keys(raw.metadata().source()),
      tensors(raw, config, matrices),
      raw_(raw),
      interleave_(interleave) {}

void CheckpointMap::begin(const Family& family) {
  keys.set_architecture(family.architecture);
  for (const char* section : {"quantization_config.", "compression_config."}) {
    const std::string key = section + std::string("quant_method");
    const std::string own = config.get_string(key, "");
    // Models that see say it of the whole.
    const std::string whole =
        config.take(config.values().get_string("hf.config." + key), std::string());
    // What the format puts together (formats/safetensors/assembled.h) needs nothing from here.
    constexpr std::string_view kRead[] = {
        "gptq",     "awq",          "bitsandbytes", "fp8",   "fbgemm_fp8", "compressed-tensors",
        "modelopt", "modelopt_fp4", "hqq",          "bitnet"};
    for (const std::string& method : {own, whole}) {
      config.require(method.empty() || method == family.quantisation ||
                         std::ranges::find(kRead, method) != std::end(kRead),
                     fmt::format("quantisation '{}'", printable(method)));
    }
  }
  // Gemma has both keys, of which the first one counts.
  const std::string activation =
      config.get_string("hidden_activation", config.get_string("hidden_act", "silu"));
  config.require(activation == family.activation ||
                     (activation == "swish" && family.activation == std::string("silu")),
                 fmt::format("hidden_act '{}'", printable(activation)));

  layers_ = config.need_int("num_hidden_layers", 1, 1024);
  heads_ = config.need_int("num_attention_heads", 1, 4096);
  const int64_t kv_heads = config.get_int("num_key_value_heads", heads_, 1, 4096);
  const int64_t width = config.need_int("hidden_size", 1, kMaxCount);
  keys.set_int("block_count", layers_);
  keys.set_int("context_length", config.need_int("max_position_embeddings", 1, kMaxContext));
  keys.set_int("embedding_length", width);
  const std::vector<int64_t> widths = config.get_ints("intermediate_size");
  if (widths.size() == static_cast<size_t>(layers_) && layers_ > 1) {
    keys.set_ints("feed_forward_length", widths);
  } else {
    keys.set_int("feed_forward_length", config.need_int("intermediate_size", 1, kMaxCount));
  }
  keys.set_int("attention.head_count", heads_);
  keys.set_int("attention.head_count_kv", kv_heads);
  tensors.set_heads(heads_, kv_heads);
  if (family.layer_norms) {
    keys.set_float("attention.layer_norm_epsilon", config.get_float("layer_norm_eps", 1e-5));
  } else {
    keys.set_float("attention.layer_norm_rms_epsilon", config.get_float("rms_norm_eps", 1e-6));
  }
  keys.set_int("vocab_size", tensors.shape_of(family.table)[1]);
  int64_t head_dim = config.get_int("head_dim", 0, 0, kMaxCount);
  if (head_dim > 0) {
    keys.set_int("attention.key_length", head_dim);
    keys.set_int("attention.value_length", head_dim);
  } else {
    head_dim = width / heads_;
  }
  if (*family.rope_width != 0) head_dim = config.need_int(family.rope_width, 1, kMaxCount);
  rope_pairs_ = map_rope(*this, family, head_dim);
}

void CheckpointMap::ends(Change norms, Change output) {
  tensors.copy("embed_tokens.weight", "token_embd.weight");
  tensors.copy("norm.weight", "output_norm.weight", norms);
  const std::string& name = config.checkpoint();
  const bool bare = name.ends_with("Model") && !name.ends_with("LMHeadModel");
  if (bare || name.ends_with("ForSequenceClassification") || name.ends_with("ForMaskedLM")) {
    return tensors.ignore("lm_head.weight");  // classes without an output over the vocabulary
  }
  // Models that see may say it of the whole alone.
  const bool whole = !tensors.has("lm_head.weight") && config.prefix() != "hf.config." &&
                     config.take(config.values().get_bool("hf.config.tie_word_embeddings"), false);
  const bool said = whole || config.has("tie_word_embeddings");
  const bool tied = whole || config.get_bool("tie_word_embeddings", !tensors.has("lm_head.weight"));
  // Some writers store the embedding a second time. What was trained apart counts, whatever the
  // configuration says.
  const bool stored = tensors.has("lm_head.weight");
  const bool copied = said && tied && tensors.are_equal("lm_head.weight", "embed_tokens.weight");
  if (copied) return tensors.ignore("lm_head.weight");
  if (!tied || stored) {
    if (said && tied) {
      log(LogLevel::warning,
          "{}: lm_head.weight differs from the embedding, and is used, though tie_word_embeddings "
          "is true",
          config.source());
    }
    const std::array<int64_t, kMaxDims> shape = tensors.shape_of("lm_head.weight");
    tensors.put("output.weight", tensors.view("lm_head.weight", {shape[0], shape[1]}), output);
    tensors.copy("lm_head.bias", "output.bias");
  }
}

void CheckpointMap::layers(std::initializer_list<TensorName> names) {
  for (int64_t i = 0; i < layers_; ++i) {
    for (const TensorName& name : names) {
      const std::string to = fmt::format("blk.{}.{}", i, name.to);
      const std::string from = layer_name(i, name.from);
      tensors.copy(from + ".weight", to + ".weight", name.change);
      tensors.copy(from + ".bias", to + ".bias", name.change);
      tensors.copy(from + kColumnOrder, to + kColumnOrder);
      tensors.copy(from + kProductScale, to + kProductScale);
    }
  }
}

void CheckpointMap::attention() {
  layers({{"self_attn.q_proj", "attn_q", interleave_ ? Change::interleave_q : Change::none},
          {"self_attn.k_proj", "attn_k", interleave_ ? Change::interleave_k : Change::none},
          {"self_attn.v_proj", "attn_v"},
          {"self_attn.o_proj", "attn_output"}});
}

void CheckpointMap::feed_forward() {
  layers({{"mlp.gate_proj", "ffn_gate"}, {"mlp.up_proj", "ffn_up"}, {"mlp.down_proj", "ffn_down"}});
}

void CheckpointMap::add_head_layer() {
  keys.set_int("block_count", ++layers_);
  keys.set_int("nextn_predict_layers", ++next_layers_);
}

void CheckpointMap::add_deepseek_heads() {
  while (next_layers_ < kMostNextLayers && tensors.has(layer_name(layers_, "eh_proj.weight"))) {
    const int64_t layer = layers_;
    add_head_layer();
    for (const auto& [from, to] : {std::pair{"eh_proj", "eh_proj"},
                                   {"enorm", "enorm"},
                                   {"hnorm", "hnorm"},
                                   {"embed_tokens", "embed_tokens"},
                                   {"shared_head.norm", "shared_head_norm"},
                                   {"shared_head.head", "shared_head_head"}}) {
      tensors.copy(layer_name(layer, std::string(from) + ".weight"),
                   fmt::format("blk.{}.nextn.{}.weight", layer, to));
    }
  }
}

void CheckpointMap::classifier(std::initializer_list<TensorName> names) {
  keys.set_int("pooling_type", static_cast<int64_t>(Pooling::rank));
  for (const TensorName& name : names) {
    tensors.copy(std::string(name.from) + ".weight", std::string(name.to) + ".weight");
    tensors.copy(std::string(name.from) + ".bias", std::string(name.to) + ".bias");
  }
}

void CheckpointMap::add_template(const std::string& name, const std::string& text) {
  templates_.emplace_back(name, text);
  keys.set_whole("tokenizer.chat_template." + name, text);
}

int32_t CheckpointMap::token(std::string_view spelling) const {
  const std::vector<std::string>& tokens = raw_.tokenizer().tokens;
  const auto at = std::ranges::find(tokens, spelling);
  return at == tokens.end() ? -1 : static_cast<int32_t>(at - tokens.begin());
}

/// What sentence-transformers puts behind a model (formats/safetensors/sentence_modules.h).
void CheckpointMap::add_pooling() {
  const Metadata& values = config.values();
  const std::string name = config.take(values.get_string("hf.pooling"), std::string());
  if (const auto pooling = pooling_named(name)) {
    keys.set_int("pooling_type", static_cast<int64_t>(*pooling));
  }
  for (const char* dense : {"dense_2", "dense_3"}) {
    const std::string from = std::string("sentence.") + dense + ".linear";
    if (!tensors.has(from + ".weight")) continue;
    const std::array<int64_t, kMaxDims> shape = tensors.shape_of(from + ".weight");
    keys.set_int(std::string(dense) + "_feat_in", shape[0]);
    keys.set_int(std::string(dense) + "_feat_out", shape[1]);
    keys.set_int("embedding_length_out", shape[1]);
    tensors.copy(from + ".weight", std::string(dense) + ".weight");
    tensors.copy(from + ".bias", std::string(dense) + ".bias");
  }
}

Result<std::unique_ptr<WeightSource>> CheckpointMap::result(std::unique_ptr<WeightSource> raw) {
  add_pooling();
  tensors.require_all_used();
  TokenizerSpec tokenizer = raw->tokenizer();
  keys.add_general(tensors.elements());
  keys.add_generation(config);
  keys.add_texts(config, tokenizer);
  for (auto& named : templates_) tokenizer.named_chat_templates.push_back(std::move(named));
  if (!config.status().ok()) return tl::unexpected(config.status());
  return std::make_unique<MappedSource>(std::move(raw), keys.take(), std::move(tokenizer),
                                        tensors.take());
}

}  // namespace infer
