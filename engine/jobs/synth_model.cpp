#include "engine/jobs/synth_model.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/quant/quant.h"
#include "engine/weights/tokenizer_spec.h"

namespace infer {
namespace {

std::span<const SynthShape> shapes() {
  // name, layers, embedding, feed-forward, heads, kv heads, tokens, experts, used, context, …
  static const SynthShape table[] = {
      {"llama-24m", 6, 288, 768, 6, 6, 32000, 0, 0, 1024},
      {"tinyllama-1.1b", 22, 2048, 5632, 32, 4, 32000, 0, 0, 2048},
      {"llama-3.2-1b", 16, 2048, 8192, 32, 8, 128256, 0, 0, 131072, 500000, 32, true},
      {"llama-3.1-8b", 32, 4096, 14336, 32, 8, 128256, 0, 0, 131072, 500000, 8},
      {"mixtral-8x7b", 32, 4096, 14336, 32, 8, 32000, 8, 2, 32768, 1e6},
      {"custom"},
  };
  return table;
}

Status check(const SynthShape& s, int64_t min_tokens) {
  const auto in = [](int64_t x, int64_t low, int64_t high) { return x >= low && x <= high; };
  constexpr int64_t kWide = int64_t{1} << 20;
  if (!in(s.layers, 1, 1024) || !in(s.embedding, 1, kWide) || !in(s.feed_forward, 1, kWide) ||
      !in(s.heads, 1, 4096) || !in(s.kv_heads, 1, s.heads) || !in(s.experts, 0, 65536) ||
      !in(s.context, 1, int64_t{1} << 31)) {
    return error(StatusCode::invalid_argument,
                 "shape '{}': give layers, embedding, feed-forward and heads within reason",
                 s.name);
  }
  if (s.embedding % s.heads != 0 || s.head_dim() % 2 != 0 || s.heads % s.kv_heads != 0) {
    return error(StatusCode::invalid_argument,
                 "shape '{}': heads must divide the embedding into even parts and be a multiple "
                 "of the key-value heads",
                 s.name);
  }
  if (s.experts > 0 && !in(s.experts_used, 1, s.experts)) {
    return error(StatusCode::invalid_argument,
                 "shape '{}': expected 1 to {} experts used, found {}", s.name, s.experts,
                 s.experts_used);
  }
  if (!in(s.tokens, min_tokens, int64_t{1} << 24)) {
    return error(StatusCode::invalid_argument, "shape '{}': expected {} to {} tokens, found {}",
                 s.name, min_tokens, int64_t{1} << 24, s.tokens);
  }
  return {};
}

/// llama.cpp's quantiser when a row is not a whole number of blocks of 256.
DType fitting(DType type, int64_t row) {
  if (row % dtype_info(type).block_elements == 0) return type;
  DType next = DType::f16;
  if (type == DType::q4_k) next = DType::q5_0;
  if (type == DType::q5_k) next = DType::q5_1;
  if (type == DType::q6_k) next = DType::q8_0;
  return row % dtype_info(next).block_elements == 0 ? next : DType::f16;
}

/// The layers whose values and down projections get more bits in llama.cpp's _K_M mixes: the first
/// and last eighth and every third between.
bool gets_more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

/// Lists tensors; the first failure is kept.
class TensorList {
 public:
  void normal(std::string name, DType type, float deviation, int64_t d0, int64_t d1,
              int64_t d2 = 1) {
    add({std::move(name), {}, SynthTensor::Fill::normal, deviation}, fitting(type, d0),
        {d0, d1, d2});
  }
  void matrix(std::string name, DType type, int64_t d0, int64_t d1, int64_t d2 = 1) {
    normal(std::move(name), type, 1 / std::sqrt(static_cast<float>(d0)), d0, d1, d2);
  }
  void vector(std::string name, int64_t d0, SynthTensor::Fill fill = SynthTensor::Fill::ones) {
    add({std::move(name), {}, fill, 0.02f}, DType::f32, {d0, 1, 1});
  }
  Result<std::vector<SynthTensor>> take() {
    if (!status_.ok()) return tl::unexpected(status_);
    return std::move(tensors_);
  }

 private:
  void add(SynthTensor tensor, DType type, const std::array<int64_t, 3>& shape) {
    Result<TensorDesc> desc = make_tensor(type, shape);
    if (!desc) {
      if (status_.ok()) status_ = std::move(desc).error();
      return;
    }
    tensor.desc = *desc;
    tensors_.push_back(std::move(tensor));
  }

  std::vector<SynthTensor> tensors_;
  Status status_;
};

}  // namespace

std::vector<std::string> synth_shapes() {
  std::vector<std::string> names;
  for (const SynthShape& shape : shapes()) names.push_back(shape.name);
  return names;
}

Result<SynthShape> synth_shape(const SynthOptions& o) {
  const auto found = std::ranges::find(shapes(), o.shape, &SynthShape::name);
  if (found == shapes().end()) {
    return fail(StatusCode::invalid_argument, "there is no shape '{}'; there are: {}", o.shape,
                fmt::join(synth_shapes(), ", "));
  }
  SynthShape s = *found;
  const auto replace = [](int64_t& own, int64_t given) { own = given != 0 ? given : own; };
  replace(s.layers, o.layers);
  replace(s.embedding, o.embedding);
  replace(s.feed_forward, o.feed_forward);
  replace(s.heads, o.heads);
  replace(s.kv_heads, o.kv_heads);
  replace(s.tokens, o.tokens);
  replace(s.experts, o.experts);
  replace(s.experts_used, o.experts_used);
  replace(s.context, o.context);
  if (s.kv_heads == 0) s.kv_heads = s.heads;
  if (s.tokens == 0) s.tokens = 32000;
  INFER_CHECK_R(check(s, o.vocabulary.empty() ? kMinSynthTokens : 1));
  return s;
}

Result<SynthTypes> synth_types(const std::string& name) {
  if (name == "q4_k_m") return SynthTypes{DType::q4_k, true};
  if (name == "q5_k_m") return SynthTypes{DType::q5_k, true};
  const std::optional<DType> type = dtype_from_name(name);
  constexpr DType kNoWeights[] = {DType::q8_1, DType::q8_k, DType::i8, DType::i16,
                                  DType::i32,  DType::i64,  DType::f64};
  if (!type || std::ranges::find(kNoWeights, *type) != std::end(kNoWeights)) {
    return fail(StatusCode::invalid_argument,
                "'{}' is no type of weights; expected one such as f16, q4_0, q8_0, q4_k or a mix: "
                "q4_k_m, q5_k_m",
                name);
  }
  if (quant_traits(*type).encode == nullptr) {
    return fail(StatusCode::unsupported, "weights of type {} can be read but not made", name);
  }
  return SynthTypes{*type, false};
}

Result<std::vector<SynthTensor>> synth_tensors(const SynthShape& s, const SynthTypes& types) {
  const DType base = types.base;
  const int64_t kv = s.kv_heads * s.head_dim();
  // The output matrix decides most: 6 bits at least, unless the whole model has more.
  const bool small = is_quantised(base) && base != DType::q8_0;
  const DType output = small ? DType::q6_k : base;
  TensorList list;
  list.normal("token_embd.weight", s.tied ? output : base, 0.02f, s.embedding, s.tokens);
  if (s.rope_factor > 0) {
    list.vector("rope_freqs.weight", s.head_dim() / 2, SynthTensor::Fill::rope_factors);
  }
  for (int64_t layer = 0; layer < s.layers; ++layer) {
    const auto name = [&](const char* part) {
      return fmt::format("blk.{}.{}.weight", layer, part);
    };
    const DType more = types.mix && gets_more_bits(layer, s.layers) ? DType::q6_k : base;
    list.vector(name("attn_norm"), s.embedding);
    list.matrix(name("attn_q"), base, s.embedding, s.embedding);
    list.matrix(name("attn_k"), base, s.embedding, kv);
    list.matrix(name("attn_v"), more, s.embedding, kv);
    list.matrix(name("attn_output"), base, s.embedding, s.embedding);
    list.vector(name("ffn_norm"), s.embedding);
    if (s.experts > 0) {
      list.matrix(name("ffn_gate_inp"), DType::f32, s.embedding, s.experts);
      list.matrix(name("ffn_gate_exps"), base, s.embedding, s.feed_forward, s.experts);
      list.matrix(name("ffn_up_exps"), base, s.embedding, s.feed_forward, s.experts);
      list.matrix(name("ffn_down_exps"), more, s.feed_forward, s.embedding, s.experts);
    } else {
      list.matrix(name("ffn_gate"), base, s.embedding, s.feed_forward);
      list.matrix(name("ffn_up"), base, s.embedding, s.feed_forward);
      list.matrix(name("ffn_down"), more, s.feed_forward, s.embedding);
    }
  }
  list.vector("output_norm.weight", s.embedding);
  if (!s.tied) list.matrix("output.weight", output, s.embedding, s.tokens);
  return list.take();
}

std::vector<float> rope_factors(const SynthShape& s) {
  // Frequencies whose waves are longer than the original context are slowed by the factor, short
  // ones are kept, and those between are blended (Dubey et al. 2024).
  constexpr double kLow = 1;
  constexpr double kHigh = 4;
  constexpr double kOriginal = 8192;
  std::vector<float> factors;
  for (int64_t i = 0; i < s.head_dim() / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(s.head_dim());
    const double wave = 2 * std::numbers::pi * std::pow(static_cast<double>(s.rope_base), exponent);
    const double kept = std::clamp((kOriginal / wave - kLow) / (kHigh - kLow), 0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - kept) / s.rope_factor + kept)));
  }
  return factors;
}

void add_shape_metadata(const SynthShape& s, Metadata& metadata) {
  const auto number = [&](const char* key, int64_t value) {
    metadata.set(std::string("llama.") + key, static_cast<uint32_t>(value));
  };
  metadata.set("general.architecture", std::string("llama"));
  metadata.set("general.name", "synthetic " + s.name);
  metadata.set("general.quantization_version", uint32_t{2});
  number("vocab_size", s.tokens);
  number("context_length", s.context);
  number("embedding_length", s.embedding);
  number("block_count", s.layers);
  number("feed_forward_length", s.feed_forward);
  number("attention.head_count", s.heads);
  number("attention.head_count_kv", s.kv_heads);
  number("rope.dimension_count", s.head_dim());
  if (s.experts > 0) {
    number("expert_count", s.experts);
    number("expert_used_count", s.experts_used);
  }
  metadata.set("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  metadata.set("llama.rope.freq_base", s.rope_base);
}

void add_made_up_vocabulary(int64_t count, Metadata& metadata) {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<float> scores{0, 0, 0};
  std::vector<int32_t> types{static_cast<int32_t>(TokenType::unknown),
                             static_cast<int32_t>(TokenType::control),
                             static_cast<int32_t>(TokenType::control)};
  const auto add = [&](std::string text, float score, TokenType type) {
    if (static_cast<int64_t>(tokens.size()) == count) return;
    tokens.push_back(std::move(text));
    scores.push_back(score);
    types.push_back(static_cast<int32_t>(type));
  };
  for (int byte = 0; byte < 256; ++byte) {
    add(fmt::format("<0x{:02X}>", byte), 0, TokenType::byte);
  }
  // "▁", then a, ▁a, b, ▁b, …, z, ▁z, aa, ▁aa, …: shorter words score higher.
  add("\u2581", -1, TokenType::normal);
  for (int64_t i = 1; static_cast<int64_t>(tokens.size()) < count; ++i) {
    std::string word;
    for (int64_t rest = i; rest > 0; rest = (rest - 1) / 26) {
      word.insert(word.begin(), static_cast<char>('a' + (rest - 1) % 26));
    }
    const auto score = static_cast<float>(-1 - i);
    add(word, score, TokenType::normal);
    add("\u2581" + word, score, TokenType::normal);
  }
  metadata.set("tokenizer.ggml.model", std::string("llama"));
  metadata.set("tokenizer.ggml.tokens", std::move(tokens));
  metadata.set("tokenizer.ggml.scores", std::move(scores));
  metadata.set("tokenizer.ggml.token_type", std::move(types));
  metadata.set("tokenizer.ggml.unknown_token_id", uint32_t{0});
  metadata.set("tokenizer.ggml.bos_token_id", uint32_t{1});
  metadata.set("tokenizer.ggml.eos_token_id", uint32_t{2});
}

}  // namespace infer
