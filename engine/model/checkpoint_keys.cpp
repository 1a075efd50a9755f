#include "engine/model/checkpoint_keys.h"

#include <algorithm>
#include <filesystem>

#include "engine/core/log.h"

namespace infer {
namespace {

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

}  // namespace

std::string checkpoint_name(const std::string& source) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  fs::path path = fs::absolute(source, ignored).lexically_normal();
  if (fs::is_regular_file(path, ignored) || !path.has_filename()) path = path.parent_path();
  return path.filename().string();
}

void CheckpointKeys::set_architecture(const std::string& name) {
  prefix_ = name + ".";
  values_.set("general.architecture", name);
}

void CheckpointKeys::set_int(const std::string& name, int64_t value) {
  set(name, static_cast<uint32_t>(value));
}
void CheckpointKeys::set_float(const std::string& name, double value) {
  set(name, static_cast<float>(value));
}
void CheckpointKeys::set_bool(const std::string& name, bool value) { set(name, value); }
void CheckpointKeys::set_string(const std::string& name, const std::string& value) {
  set(name, value);
}
void CheckpointKeys::set_flags(const std::string& name, std::vector<bool> values) {
  set(name, std::move(values));
}

void CheckpointKeys::set_ints(const std::string& name, const std::vector<int64_t>& values) {
  set(name, std::vector<uint32_t>(values.begin(), values.end()));
}

void CheckpointKeys::set_floats(const std::string& name, std::vector<float> values) {
  set(name, std::move(values));
}

void CheckpointKeys::set_longs(const std::string& name, std::vector<uint64_t> values) {
  set(name, std::move(values));
}

void CheckpointKeys::add_general(const std::map<DType, int64_t>& elements) {
  values_.set("general.type", std::string("model"));
  values_.set("general.name", checkpoint_name(values_.source()));
  values_.set("general.quantization_version", uint32_t{2});
  const auto most = std::ranges::max_element(elements, {}, [](auto& e) { return e.second; });
  if (most == elements.end()) return;
  if (const int32_t type = file_type_of(most->first); type >= 0) {
    values_.set("general.file_type", static_cast<uint32_t>(type));
  }
}

void CheckpointKeys::add_generation(CheckpointConfig& config) {
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
    if (!config.values().has(from)) continue;
    const std::string to = std::string("general.sampling.") + k.to;
    // Some have −1 for what is off.
    const auto whole = config.values().get_int(from, -1, INT32_MAX);
    const auto number = config.values().get_float(from);
    if (k.whole ? !whole : !number) {
      // It is no part of the model.
      log(LogLevel::warning, "{}; it is left out",
          (k.whole ? whole.error() : number.error()).message());
    } else if (k.whole) {
      values_.set(to, static_cast<int32_t>(std::max<int64_t>(0, **whole)));
    } else {
      values_.set(to, static_cast<float>(**number));
    }
  }
}

void CheckpointKeys::add_texts(CheckpointConfig& config, TokenizerSpec& tokenizer) {
  const auto ids = [&](const char* name) {
    std::vector<int64_t> all;
    for (const std::string& place :
         {std::string("hf.generation_config."), config.prefix(), std::string("hf.config.")}) {
      // Some files have −1 where there is no such token.
      for (const int64_t id : config.take(config.values().get_ints(place + name, -1, INT32_MAX),
                                          std::vector<int64_t>())) {
        if (id >= 0 && std::ranges::find(all, id) == all.end()) all.push_back(id);
      }
    }
    return all;
  };
  const bool none = tokenizer.tokens.empty();
  if (none) values_.set("tokenizer.ggml.model", std::string("none"));
  const auto set_id = [&](const char* name, int32_t& field, int64_t id) {
    if (none) {
      values_.set(fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<uint32_t>(id));
    } else if (field == kNoToken && id < static_cast<int64_t>(tokenizer.tokens.size())) {
      field = static_cast<int32_t>(id);
    }
  };
  if (const auto bos = ids("bos_token_id"); !bos.empty()) set_id("bos", tokenizer.bos, bos[0]);
  if (const auto pad = ids("pad_token_id"); !pad.empty()) {
    set_id("padding", tokenizer.padding, pad[0]);
  }
  // Any of several ends a text; there are three keys for that.
  constexpr std::pair<const char*, int32_t TokenizerSpec::*> kEnds[] = {
      {"eos", &TokenizerSpec::eos}, {"eot", &TokenizerSpec::eot}, {"eom", &TokenizerSpec::eom}};
  std::vector<int64_t> ends = ids("eos_token_id");
  if (!none && tokenizer.eos != kNoToken) {
    std::erase(ends, tokenizer.eos);
    ends.insert(ends.begin(), tokenizer.eos);
  }
  for (size_t i = 0; i < std::min(ends.size(), std::size(kEnds)); ++i) {
    set_id(kEnds[i].first, tokenizer.*kEnds[i].second, ends[i]);
  }
  constexpr std::string_view kNamed = "hf.chat_templates.";
  for (const auto& [name, value] : config.values().values()) {
    const auto* text = std::get_if<std::string>(&value);
    if (text == nullptr) continue;
    if (name == "hf.tokenizer_config.chat_template") {
      values_.set("tokenizer.chat_template", *text);
      tokenizer.chat_template = *text;
    } else if (name.starts_with(kNamed)) {
      const std::string which = name.substr(kNamed.size());
      values_.set("tokenizer.chat_template." + which, *text);
      tokenizer.named_chat_templates.emplace_back(which, *text);
    }
  }
}

}  // namespace infer
