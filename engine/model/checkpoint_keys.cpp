// The keys of a checkpoint's configuration as those of GGUF.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>

#include "engine/core/file.h"
#include "engine/model/checkpoint.h"

namespace infer {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 20;
constexpr int64_t kMaxContext = int64_t{1} << 31;

/// `general.file_type` of the type that most weights have; −1: none.
int32_t file_type_of(DType type) {
  switch (type) {
    case DType::f32: return 0;
    case DType::f16: return 1;
    case DType::bf16: return 32;
    case DType::q4_0: return 2;
    case DType::q5_0: return 8;
    case DType::mxfp4: return 38;
    default: return -1;
  }
}

/// Magnitude of YaRN with a multiplier (Peng et al. 2023, section 3.4; DeepSeek-AI 2024).
double yarn_magnitude(double factor, double multiplier) {
  return factor <= 1 ? 1.0 : 0.1 * multiplier * std::log(factor) + 1.0;
}

}  // namespace

void CheckpointMap::begin(const Family& family) {
  prefix_ = std::string(family.architecture) + ".";
  family_ = family;
  metadata_.set("general.architecture", std::string(family.architecture));
  for (const char* section : {"quantization_config.", "compression_config."}) {
    const std::string method = get_string(section + std::string("quant_method"), "");
    // What the format puts together (formats/safetensors/assembled.h) needs nothing from here.
    const bool read =
        method.empty() || method == family.quantisation || method == "gptq" || method == "awq" ||
        (method == "bitsandbytes" && !get_bool(section + std::string("load_in_8bit"), false));
    require(read, fmt::format("quantisation '{}'", printable(method)));
  }
  // Gemma has both keys, of which the first one counts.
  const std::string activation = get_string("hidden_activation", get_string("hidden_act", "silu"));
  require(activation == family.activation ||
              (activation == "swish" && family.activation == std::string("silu")),
          fmt::format("hidden_act '{}'", printable(activation)));

  layers_ = need_int("num_hidden_layers", 1, 1024);
  heads_ = need_int("num_attention_heads", 1, 4096);
  kv_heads_ = get_int("num_key_value_heads", heads_, 1, 4096);
  const int64_t width = need_int("hidden_size", 1, kMaxCount);
  set_int("block_count", layers_);
  set_int("context_length", need_int("max_position_embeddings", 1, kMaxContext));
  set_int("embedding_length", width);
  set_int("feed_forward_length", need_int("intermediate_size", 1, kMaxCount));
  set_int("attention.head_count", heads_);
  set_int("attention.head_count_kv", kv_heads_);
  set_float("attention.layer_norm_rms_epsilon", get_float("rms_norm_eps", 1e-6));
  set_int("vocab_size", shape_of("embed_tokens.weight")[1]);
  int64_t head_dim = get_int("head_dim", 0, 0, kMaxCount);
  if (head_dim > 0) {
    set_int("attention.key_length", head_dim);
    set_int("attention.value_length", head_dim);
  } else {
    head_dim = width / heads_;
  }
  if (*family.rope_width != 0) head_dim = need_int(family.rope_width, 1, kMaxCount);
  rope(head_dim);
}

/// Where the parameters of RoPE lie: in transformers 5 with the base, by the kind of layer where
/// there are several; before, those of scaling alone.
std::string CheckpointMap::rope_section() const {
  for (const char* section :
       {"rope_parameters.full_attention.", "rope_parameters.", "rope_scaling."}) {
    const std::string begin = key(section);
    const auto& values = config_values_.values();
    const auto it = values.lower_bound(begin);
    if (it != values.end() && it->first.starts_with(begin)) return section;
  }
  return "rope_scaling.";
}

void CheckpointMap::rope(int64_t head_dim) {
  const std::string section = rope_section();
  const double base = get_float(section + "rope_theta", get_float("rope_theta", 10000.0));
  const double share =
      get_float(section + "partial_rotary_factor", get_float("partial_rotary_factor", 1.0));
  if (!(share > 0 && share <= 1)) {
    fail_with(error(StatusCode::bad_file, "{}: partial_rotary_factor: expected 0 to 1, found {}",
                    metadata_.source(), share));
    return;
  }
  const auto dims = static_cast<int64_t>(static_cast<double>(head_dim) * share);
  rope_pairs_ = dims / 2;
  set_float("rope.freq_base", base);
  set_int("rope.dimension_count", dims);
  const std::string type =
      get_string(section + "rope_type", get_string(section + "type", "default"));
  const double factor = get_float(section + "factor", 1.0);
  if (!(factor > 0)) {
    fail_with(error(StatusCode::bad_file, "{}: {}factor: expected more than 0, found {}",
                    metadata_.source(), section, factor));
    return;
  }
  if (type == "linear") {
    set_string("rope.scaling.type", "linear");
    set_float("rope.scaling.factor", factor);
  } else if (type == "yarn") {
    yarn(section, factor);
  } else if (type == "llama3") {
    llama3_factors(section, base, dims);
  } else {
    // "dynamic" begins beyond the context that the model was trained for, which is the one written.
    const bool long_short = family_.long_rope && (type == "longrope" || type == "su");
    require(type == "default" || type == "dynamic" || long_short,
            fmt::format("RoPE scaling '{}'", printable(type)));
  }
}

void CheckpointMap::yarn(const std::string& section, double factor) {
  set_string("rope.scaling.type", "yarn");
  set_float("rope.scaling.factor", factor);
  const int64_t context = get_int("max_position_embeddings", 1, 1, kMaxContext);
  set_int("rope.scaling.original_context_length",
          get_int(section + "original_max_position_embeddings",
                  get_int("original_max_position_embeddings", context, 1, kMaxContext), 1,
                  kMaxContext));
  set_float("rope.scaling.yarn_beta_fast", get_float(section + "beta_fast", 32.0));
  set_float("rope.scaling.yarn_beta_slow", get_float(section + "beta_slow", 1.0));
  require(get_bool(section + "truncate", true) == family_.yarn_rounding,
          "YaRN with this 'truncate'");
  const double scale = get_float(section + "mscale", 0.0);
  const double scale_all = get_float(section + "mscale_all_dim", 0.0);
  if (has(section + "attention_factor")) {
    set_float("rope.scaling.yarn_attn_factor", get_float(section + "attention_factor", 1.0));
  } else if (scale != 0 && scale_all != 0 && !family_.yarn_on_scores) {
    set_float("rope.scaling.yarn_attn_factor",
              yarn_magnitude(factor, scale) / yarn_magnitude(factor, scale_all));
  }
}

/// Frequencies whose waves are longer than the original context are slowed by the factor, short
/// ones are kept, and those between are blended (Dubey et al. 2024).
void CheckpointMap::llama3_factors(const std::string& section, double base, int64_t dims) {
  const double factor = get_float(section + "factor", 8.0);
  const double low = get_float(section + "low_freq_factor", 1.0);
  const double high = get_float(section + "high_freq_factor", 4.0);
  const auto context = static_cast<double>(
      get_int(section + "original_max_position_embeddings", 8192, 1, kMaxContext));
  if (!(high > low)) {
    fail_with(error(StatusCode::bad_file,
                    "{}: {}high_freq_factor: expected more than low_freq_factor, {}, found {}",
                    metadata_.source(), section, low, high));
    return;
  }
  std::vector<float> factors;
  for (int64_t i = 0; i < dims / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(dims);
    const double wave = 2 * std::numbers::pi * std::pow(base, exponent);
    const double kept = std::clamp((context / wave - low) / (high - low), 0.0, 1.0);
    factors.push_back(static_cast<float>(1 / ((1 - kept) / factor + kept)));
  }
  put_values("rope_freqs.weight", std::move(factors));
}

int64_t CheckpointMap::window() {
  if (!get_bool("use_sliding_window", true)) return 0;
  return get_int("sliding_window", 0, 0, INT32_MAX);
}

void CheckpointMap::require_no_window() {
  require_layer_types([](int64_t) { return false; });
  // Before there were layer_types, the last layers had the window.
  const bool slides = get_bool("use_sliding_window", false) && !has("layer_types") &&
                      get_int("max_window_layers", 0, 0, INT32_MAX) < layers_;
  require(!slides, "use_sliding_window");
}

void CheckpointMap::require_layer_types(bool (*sliding)(int64_t layer)) {
  const Result<const std::vector<std::string>*> types =
      config_values_.get_strings(key("layer_types"));
  if (!types) return fail_with(types.error());
  if (*types == nullptr) return;
  bool same = (*types)->size() == static_cast<size_t>(layers_);
  for (size_t i = 0; same && i < (*types)->size(); ++i) {
    const char* expected =
        sliding(static_cast<int64_t>(i)) ? "sliding_attention" : "full_attention";
    same = (**types)[i] == expected;
  }
  require(same, "this order of layer_types");
}

void CheckpointMap::add_general() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path path = fs::absolute(metadata_.source(), ignored).lexically_normal();
  if (fs::is_regular_file(path, ignored) || !path.has_filename()) path = path.parent_path();
  metadata_.set("general.type", std::string("model"));
  metadata_.set("general.name", path.filename().string());
  metadata_.set("general.quantization_version", uint32_t{2});
  const auto most = std::ranges::max_element(elements_, {}, [](auto& e) { return e.second; });
  if (most == elements_.end()) return;
  if (const int32_t type = file_type_of(most->first); type >= 0) {
    metadata_.set("general.file_type", static_cast<uint32_t>(type));
  }
}

/// generation_config.json: what sampling begins with.
void CheckpointMap::add_generation() {
  struct Key {
    const char* from;
    const char* to;
    bool whole;
  };
  constexpr Key kKeys[] = {{"temperature", "temp", false},
                           {"top_k", "top_k", true},
                           {"top_p", "top_p", false},
                           {"min_p", "min_p", false},
                           {"repetition_penalty", "penalty_repeat", false}};
  for (const Key& k : kKeys) {
    const std::string from = std::string("hf.generation_config.") + k.from;
    if (!config_values_.has(from)) continue;
    const std::string to = std::string("general.sampling.") + k.to;
    if (k.whole) {
      metadata_.set(
          to, static_cast<int32_t>(take(config_values_.get_int(from, 0, INT32_MAX), int64_t{0})));
    } else {
      metadata_.set(to, static_cast<float>(take(config_values_.get_float(from), 0.0)));
    }
  }
}

/// Special tokens that the vocabulary leaves open, and the chat templates. Without a vocabulary the
/// ids are kept as keys alone.
void CheckpointMap::add_texts() {
  const auto ids = [&](const char* name) {
    std::vector<int64_t> all;
    for (const std::string& place :
         {std::string("hf.generation_config."), config_, std::string("hf.config.")}) {
      for (const int64_t id :
           take(config_values_.get_ints(place + name, 0, INT32_MAX), std::vector<int64_t>())) {
        if (std::ranges::find(all, id) == all.end()) all.push_back(id);
      }
    }
    return all;
  };
  const bool none = tokenizer_.tokens.empty();
  if (none) metadata_.set("tokenizer.ggml.model", std::string("none"));
  const auto set_id = [&](const char* name, int32_t& field, int64_t id) {
    if (none) {
      metadata_.set(fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<uint32_t>(id));
    } else if (field == kNoToken && id < static_cast<int64_t>(tokenizer_.tokens.size())) {
      field = static_cast<int32_t>(id);
    }
  };
  if (const auto bos = ids("bos_token_id"); !bos.empty()) set_id("bos", tokenizer_.bos, bos[0]);
  if (const auto pad = ids("pad_token_id"); !pad.empty()) {
    set_id("padding", tokenizer_.padding, pad[0]);
  }
  // Any of several ends a text; there are three keys for that.
  constexpr std::pair<const char*, int32_t TokenizerSpec::*> kEnds[] = {
      {"eos", &TokenizerSpec::eos}, {"eot", &TokenizerSpec::eot}, {"eom", &TokenizerSpec::eom}};
  std::vector<int64_t> ends = ids("eos_token_id");
  if (!none && tokenizer_.eos != kNoToken) {
    std::erase(ends, tokenizer_.eos);
    ends.insert(ends.begin(), tokenizer_.eos);
  }
  for (size_t i = 0; i < std::min(ends.size(), std::size(kEnds)); ++i) {
    set_id(kEnds[i].first, tokenizer_.*kEnds[i].second, ends[i]);
  }
  constexpr std::string_view kNamed = "hf.chat_templates.";
  for (const auto& [name, value] : config_values_.values()) {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) continue;
    if (name == "hf.tokenizer_config.chat_template") {
      metadata_.set("tokenizer.chat_template", *text);
      tokenizer_.chat_template = *text;
    } else if (name.starts_with(kNamed)) {
      const std::string which = name.substr(kNamed.size());
      metadata_.set("tokenizer.chat_template." + which, *text);
      tokenizer_.named_chat_templates.emplace_back(which, *text);
    }
  }
}

}  // namespace infer
