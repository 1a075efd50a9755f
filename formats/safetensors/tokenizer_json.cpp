#include "formats/safetensors/tokenizer_json.h"

#include <algorithm>
#include <filesystem>

#include "engine/core/file.h"
#include "engine/core/log.h"
#include "formats/safetensors/json_document.h"
#include "formats/safetensors/tokenizer_parts.h"

namespace infer::safetensors {
namespace {

bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

/// An optional JSON file beside tokenizer.json; an empty object where it is missing.
Result<Json> read_beside(const std::string& directory, const char* name) {
  const std::string path = directory + "/" + name;
  if (!is_file(path)) return Json::object();
  return read_json_document(path);
}

class TokenizerReader {
 public:
  TokenizerReader(const Json& tokenizer, const Json& config, const Json& special,
                  JsonProblem& problem, JsonProblem& config_problem)
      : root_(tokenizer, problem),
        config_(config, config_problem),
        special_(special, config_problem) {}

  TokenizerSpec spec;

  void read(int64_t vocab_size) {
    const JsonPlace model = root_.at("model");
    read_vocabulary(model, spec);
    TextSteps steps = read_text_steps(root_);
    added_tokens(root_.at("added_tokens"), vocab_size, steps.space_marks);
    fill(vocab_size);
    by_text_.reserve(spec.tokens.size());
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      if (spec.types[i] == TokenType::unused) continue;
      by_text_.emplace(spec.tokens[i], static_cast<int32_t>(i));
    }
    special_tokens();
    surroundings(model.at("type").text(""));
    const std::string type = type_of(model);
    if (type == "BPE") {
      read_bpe(model, std::move(steps), by_text_, spec);
    } else if (type == "Unigram") {
      read_unigram(model, std::move(steps), spec);
    } else if (type == "WordPiece") {
      spec.unknown = find(model.at("unk_token").text("[UNK]"));
      // Changes the spellings, so that by_text_ is of no use afterwards.
      read_wordpiece(model, steps, spec);
    } else {
      model.unsupported();
    }
  }

 private:
  /// Files of the first years leave out the type.
  static std::string type_of(const JsonPlace& model) {
    if (model.at("type").present()) return model.type();
    return model.at("merges").present() ? "BPE" : "";
  }

  void added_tokens(const JsonPlace& list, int64_t vocab_size, bool space_marks) {
    const auto in_model = static_cast<int64_t>(spec.tokens.size());
    for (size_t i = 0; i < list.size(); ++i) {
      const JsonPlace token = list.at(i);
      const int64_t id = token.at("id").integer(0, kMaxTokens - 1);
      const std::string text = token.at("content").text();
      if (token.at("single_word").flag(false)) token.at("single_word").unsupported();
      if (id >= std::max(vocab_size, in_model) && vocab_size > 0) {
        log(LogLevel::warning,
            "{}: added token '{}' has the id {}, beyond the model's vocabulary: "
            "it is left out",
            spec.source, printable(text), id);
        continue;
      }
      const auto at = static_cast<size_t>(id);
      if (at >= spec.tokens.size()) {
        spec.tokens.resize(at + 1);
        spec.types.resize(at + 1, TokenType::unused);
      }
      const bool taken = spec.types[at] != TokenType::unused;
      if (taken && spec.tokens[at] != text) {
        token.expected(fmt::format("another id than that of '{}'", printable(spec.tokens[at])));
        return;
      }
      const bool special = token.at("special").flag(false);
      // User-defined tokens are looked for before spaces become ▁: this one is not to match spaces.
      const bool has_mark = space_marks && text.find(kSpaceMark) != std::string::npos;
      if (taken && !special && has_mark) continue;
      spec.tokens[at] = text;
      spec.types[at] = special ? TokenType::control : TokenType::user_defined;
      if (token.at("lstrip").flag(false)) spec.strips_left.push_back(static_cast<int32_t>(id));
      if (token.at("rstrip").flag(false)) spec.strips_right.push_back(static_cast<int32_t>(id));
    }
  }

  /// Ids that no token has, and those up to the model's vocabulary, get names as llama.cpp's
  /// converter gives them.
  void fill(int64_t vocab_size) {
    const size_t size = std::max(spec.tokens.size(), static_cast<size_t>(vocab_size));
    spec.tokens.resize(size);
    spec.types.resize(size, TokenType::unused);
    if (!spec.scores.empty()) spec.scores.resize(size, kUnusedScore);
    for (size_t i = 0; i < size; ++i) {
      if (spec.types[i] == TokenType::unused) spec.tokens[i] = fmt::format("[PAD{}]", i);
    }
  }

  int32_t find(std::string_view text) const {
    const auto it = by_text_.find(text);
    return it == by_text_.end() ? kNoToken : it->second;
  }

  /// A token's spelling, or an object that has it as `content`.
  static std::string spelling(const JsonPlace& place) {
    if (place.value().is_object()) return place.at("content").text();
    return place.text("");
  }

  void special_tokens() {
    struct Role {
      const char* key;
      int32_t TokenizerSpec::*id;
    };
    constexpr Role kRoles[] = {
        {"bos_token", &TokenizerSpec::bos},     {"eos_token", &TokenizerSpec::eos},
        {"unk_token", &TokenizerSpec::unknown}, {"sep_token", &TokenizerSpec::separator},
        {"pad_token", &TokenizerSpec::padding}, {"cls_token", &TokenizerSpec::cls},
        {"mask_token", &TokenizerSpec::mask},
    };
    for (const Role& role : kRoles) {
      std::string text = spelling(config_.at(role.key));
      if (text.empty()) text = spelling(special_.at(role.key));
      if (!text.empty()) spec.*role.id = find(text);
    }
  }

  void surroundings(std::string_view type) {
    const Surroundings around = read_surroundings(root_.at("post_processor"));
    // The classes of Llama and Gemma add what they are told to, whatever the file has.
    const std::string name = config_.at("tokenizer_class").text("");
    const bool own = name.starts_with("Llama") || name.starts_with("CodeLlama") ||
                     name.starts_with("Gemma") || name.starts_with("Cohere");
    spec.add_bos = static_cast<int8_t>(own && !around.found);
    spec.add_eos = 0;
    const auto one = [&](const std::vector<std::string>& texts, int32_t& role, int8_t& add,
                         const char* where) {
      if (texts.empty()) return;
      const int32_t id = find(texts.front());
      const bool fits = texts.size() == 1 && id != kNoToken && (role == kNoToken || role == id);
      if (!fits) {
        log(LogLevel::warning,
            "{}: the tokens that the file adds {} every text are not added; the chat template must "
            "add them",
            spec.source, where);
        return;
      }
      role = id;
      add = 1;
    };
    const bool bert = type == "WordPiece";
    one(around.before, bert ? spec.cls : spec.bos, spec.add_bos, "before");
    one(around.after, bert ? spec.separator : spec.eos, spec.add_eos, "after");
    if (const JsonPlace add = config_.at("add_bos_token"); add.present()) {
      spec.add_bos = add.flag(false) ? 1 : 0;
    }
    if (const JsonPlace add = config_.at("add_eos_token"); add.present()) {
      spec.add_eos = add.flag(false) ? 1 : 0;
    }
  }

  static constexpr float kUnusedScore = -10000;

  JsonPlace root_, config_, special_;
  TokenIds by_text_;
};

}  // namespace

Result<TokenizerSpec> read_tokenizer(const std::string& directory, const Metadata& config) {
  const std::string path = directory + "/tokenizer.json";
  if (!is_file(path)) {
    TokenizerSpec none;
    none.source = directory;
    none.model = "none";
    if (is_file(directory + "/tokenizer.model")) {
      log(LogLevel::warning,
          "{}: has a tokenizer.model but no tokenizer.json, so the model takes and gives only "
          "token ids",
          directory);
    }
    return none;
  }
  INFER_TRY(const Json tokenizer, read_json_document(path));
  INFER_TRY(const Json tokenizer_config, read_beside(directory, "tokenizer_config.json"));
  INFER_TRY(const Json special, read_beside(directory, "special_tokens_map.json"));
  int64_t vocab_size = 0;
  for (const char* key : {"hf.config.text_config.vocab_size", "hf.config.vocab_size"}) {
    INFER_TRY(const auto found, config.get_int(key, 0, kMaxTokens));
    if (found && vocab_size == 0) vocab_size = *found;
  }
  JsonProblem problem{path, {}}, config_problem{directory + "/tokenizer_config.json", {}};
  TokenizerReader reader(tokenizer, tokenizer_config, special, problem, config_problem);
  reader.spec.source = path;
  reader.read(vocab_size);
  if (!problem.ok()) return tl::unexpected(std::move(problem.status));
  if (!config_problem.ok()) return tl::unexpected(std::move(config_problem.status));
  return std::move(reader.spec);
}

}  // namespace infer::safetensors
