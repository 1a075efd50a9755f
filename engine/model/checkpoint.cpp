#include "engine/model/checkpoint.h"

#include "engine/core/file.h"
#include "engine/model/checkpoint_rope.h"

namespace infer {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 20;

}  // namespace

CheckpointMap::CheckpointMap(const WeightSource& raw, std::optional<DType> matrices)
    : config(raw.metadata()), keys(raw.metadata().source()), tensors(raw, config, matrices) {}

void CheckpointMap::begin(const Family& family) {
  keys.set_architecture(family.architecture);
  for (const char* section : {"quantization_config.", "compression_config."}) {
    const std::string method = config.get_string(section + std::string("quant_method"), "");
    // What the format puts together (formats/safetensors/assembled.h) needs nothing from here.
    const bool read = method.empty() || method == family.quantisation || method == "gptq" ||
                      method == "awq" ||
                      (method == "bitsandbytes" &&
                       !config.get_bool(section + std::string("load_in_8bit"), false));
    config.require(read, fmt::format("quantisation '{}'", printable(method)));
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
  keys.set_int("feed_forward_length", config.need_int("intermediate_size", 1, kMaxCount));
  keys.set_int("attention.head_count", heads_);
  keys.set_int("attention.head_count_kv", kv_heads);
  tensors.set_heads(heads_, kv_heads);
  keys.set_float("attention.layer_norm_rms_epsilon", config.get_float("rms_norm_eps", 1e-6));
  keys.set_int("vocab_size", tensors.shape_of("embed_tokens.weight")[1]);
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

void CheckpointMap::ends(Change norms) {
  tensors.copy("embed_tokens.weight", "token_embd.weight");
  tensors.copy("norm.weight", "output_norm.weight", norms);
  const bool said = config.has("tie_word_embeddings");
  const bool tied = config.get_bool("tie_word_embeddings", !tensors.has("lm_head.weight"));
  // Some writers store the embedding a second time.
  if (said && tied) return tensors.ignore("lm_head.weight");
  if (!tied) {
    const std::array<int64_t, kMaxDims> shape = tensors.shape_of("lm_head.weight");
    tensors.put("output.weight", tensors.view("lm_head.weight", {shape[0], shape[1]}));
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
    }
  }
}

void CheckpointMap::attention(bool interleave) {
  layers({{"self_attn.q_proj", "attn_q", interleave ? Change::interleave_q : Change::none},
          {"self_attn.k_proj", "attn_k", interleave ? Change::interleave_k : Change::none},
          {"self_attn.v_proj", "attn_v"},
          {"self_attn.o_proj", "attn_output"}});
}

void CheckpointMap::feed_forward() {
  layers({{"mlp.gate_proj", "ffn_gate"}, {"mlp.up_proj", "ffn_up"}, {"mlp.down_proj", "ffn_down"}});
}

Result<std::unique_ptr<WeightSource>> CheckpointMap::result(std::unique_ptr<WeightSource> raw) {
  tensors.require_all_used();
  TokenizerSpec tokenizer = raw->tokenizer();
  keys.add_general(tensors.elements());
  keys.add_generation(config);
  keys.add_texts(config, tokenizer);
  if (!config.status().ok()) return tl::unexpected(config.status());
  return std::make_unique<MappedSource>(std::move(raw), keys.take(), std::move(tokenizer),
                                        tensors.take());
}

}  // namespace infer
