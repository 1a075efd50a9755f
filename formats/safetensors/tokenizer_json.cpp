#include "formats/safetensors/tokenizer_json.h"

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "engine/core/file.h"
#include "engine/core/log.h"
#include "formats/safetensors/json_document.h"
#include "formats/safetensors/ranked_tokens.h"
#include "formats/safetensors/sentencepiece_model.h"
#include "formats/safetensors/token_rows.h"
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

  /// With the vocabulary of a tokenizer.model in `spec`.
  void read_beside_sentencepiece(const Json& added, int64_t vocab_size) {
    library_ = false;
    tokens_of_config(vocab_size);
    const JsonPlace more(added, *special_.problem(), "added_tokens.json");
    for (const auto& [text, id] : added.items()) {
      put_token(more.at(text), text, more.at(text).integer(0, kMaxTokens - 1), false, vocab_size,
                true);
    }
    fill(vocab_size);
    index();
    special_tokens();
    surroundings("");
    // What this class of Hugging Face adds is not in its files.
    if (config_.at("tokenizer_class").text("").starts_with("T5")) spec.add_eos = 1;
    // Hugging Face's classes encode what stands between added tokens by itself unless they are told
    // not to. SentencePiece has one text.
    spec.prefix_at_start_only = !config_.at("legacy").flag(!config_.value().empty());
  }

  /// With the vocabulary of a tokenizer.jsonl in `spec`.
  void read_beside_rows(int64_t vocab_size) {
    const auto count = [&](const char* key) {
      const JsonPlace place = config_.at(key);
      return place.present() ? static_cast<int32_t>(place.integer(0, INT32_MAX)) : 0;
    };
    spec.cut_repeats = count("break_around_repeated_chars_threshold");
    spec.cut_spaces = count("break_around_consecutive_spaces_threshold");
    fill(vocab_size);
    index();
    special_tokens();
    surroundings("");
  }

  /// With the vocabulary of a file of tiktoken in `spec`. Which words it cuts texts into, and
  /// further special tokens, are part of the code of a tokenizer's class.
  void read_beside_ranks(int64_t vocab_size) {
    library_ = false;
    const auto own = static_cast<int64_t>(spec.tokens.size());
    const JsonPlace place = config_.at("tokenizer_class");
    const std::string name = place.text("");
    const bool kimi = name == "TikTokenTokenizer";
    if (!kimi && name != "QWenTokenizer") {
      return place.expected("'TikTokenTokenizer' or 'QWenTokenizer', which files of tiktoken need");
    }
    spec.pre = kimi ? "kimi-k2" : "qwen2";
    spec.compose = !kimi;
    tokens_of_config(vocab_size);
    const int64_t further = kimi ? kKimiTokens : 3 + kQwenExtras;
    const int64_t end = vocab_size > 0 ? std::min(vocab_size, own + further) : own + further;
    spec.tokens.resize(std::max(spec.tokens.size(), static_cast<size_t>(end)));
    spec.types.resize(spec.tokens.size(), TokenType::unused);
    for (int64_t id = own; id < end; ++id) {
      const auto at = static_cast<size_t>(id);
      if (spec.types[at] != TokenType::unused) continue;
      spec.tokens[at] = kimi ? fmt::format("<|reserved_token_{}|>", id) : qwen_token(id - own);
      spec.types[at] = TokenType::control;
    }
    fill(vocab_size);
    index();
    special_tokens();
    surroundings("");
    if (!kimi && spec.eos == kNoToken) spec.eos = find(qwen_token(0));
  }

  void read(int64_t vocab_size) {
    const JsonPlace model = root_.at("model");
    read_vocabulary(model, spec);
    TextSteps steps = read_text_steps(root_);
    added_tokens(root_.at("added_tokens"), vocab_size, steps);
    fill(vocab_size);
    index();
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
  static constexpr int64_t kKimiTokens = 256;  ///< special ones
  static constexpr int64_t kQwenExtras = 205;
  static std::string qwen_token(int64_t i) {
    constexpr const char* kNamed[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    return i < 3 ? kNamed[i] : fmt::format("<|extra_{}|>", i - 3);
  }

  /// "added_tokens_decoder" of tokenizer_config.json.
  void tokens_of_config(int64_t vocab_size) {
    const JsonPlace decoder = config_.at("added_tokens_decoder");
    if (decoder.present() && !decoder.value().is_object()) decoder.expected("an object");
    if (!decoder.value().is_object()) return;
    for (const auto& [key, value] : decoder.value().items()) {
      const JsonPlace token = decoder.at(key);
      int64_t id = -1;
      const auto end = std::from_chars(key.data(), key.data() + key.size(), id);
      if (end.ec != std::errc() || end.ptr != key.data() + key.size() || id < 0 ||
          id >= kMaxTokens) {
        return token.expected(fmt::format("an id below {} as its key", kMaxTokens));
      }
      added_token(token, id, vocab_size, true);
    }
  }

  /// Files of the first years leave out the type.
  static std::string type_of(const JsonPlace& model) {
    if (model.at("type").present()) return model.type();
    return model.at("merges").present() ? "BPE" : "";
  }

  void index() {
    by_text_.reserve(spec.tokens.size());
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      if (spec.types[i] == TokenType::unused) continue;
      by_text_.emplace(spec.tokens[i], static_cast<int32_t>(i));
    }
  }

  void added_tokens(const JsonPlace& list, int64_t vocab_size, const TextSteps& steps) {
    const auto in_model = static_cast<int64_t>(spec.tokens.size());
    for (size_t i = 0; i < list.size(); ++i) {
      const JsonPlace token = list.at(i);
      const int64_t id = token.at("id").integer(0, kMaxTokens - 1);
      const int64_t end = vocab_size > 0 ? std::max(vocab_size, in_model) : 0;
      if (!added_token(token, id, end, steps.space_marks)) continue;
      const JsonPlace normalised = token.at("normalized");
      if (!normalised.flag(false)) continue;
      const std::string text = token.at("content").text();
      if (steps.marks_twice && (text.find(' ') != std::string::npos || has_mark(text))) {
        normalised.unsupported("with spaces and both a Replace of spaces and Metaspace");
      }
      spec.normalised.push_back(static_cast<int32_t>(id));
    }
    for (auto* ids : {&spec.apart, &spec.literal, &spec.normalised}) {
      std::ranges::sort(*ids);
      const auto rest = std::ranges::unique(*ids);
      ids->erase(rest.begin(), rest.end());
    }
  }

  static bool has_mark(std::string_view text) {
    return text.find(kSpaceMark) != std::string_view::npos;
  }

  /// `end`: ids from it on are left out; 0: none is.
  bool added_token(const JsonPlace& token, int64_t id, int64_t end, bool space_marks) {
    const bool special = token.at("special").flag(false);
    if (!put_token(token, token.at("content").text(), id, special, end, space_marks)) return false;
    const auto at = static_cast<int32_t>(id);
    if (token.at("single_word").flag(false)) spec.single_words.push_back(at);
    if (token.at("lstrip").flag(false)) spec.strips_left.push_back(at);
    if (token.at("rstrip").flag(false)) spec.strips_right.push_back(at);
    return true;
  }

  bool put_token(const JsonPlace& token, const std::string& text, int64_t id, bool special,
                 int64_t end, bool space_marks) {
    if (id >= end && end > 0) {
      log(LogLevel::warning,
          "{}: added token '{}' has the id {}, beyond the model's vocabulary: "
          "it is left out",
          spec.source, printable(text), id);
      return false;
    }
    const auto at = static_cast<size_t>(id);
    if (at >= spec.tokens.size()) {
      spec.tokens.resize(at + 1);
      spec.types.resize(at + 1, TokenType::unused);
    }
    const bool taken = spec.types[at] != TokenType::unused;
    if (taken && spec.tokens[at] != text) {
      token.expected(fmt::format("another id than that of '{}'", printable(spec.tokens[at])));
      return false;
    }
    if (spec.types[at] == TokenType::unknown) return false;
    const bool marks = !special && space_marks && has_mark(text);
    // In a text its ▁ is no space. Merges make it of spaces all the same, if it is a token of
    // theirs.
    if (marks && library_) spec.literal.push_back(static_cast<int32_t>(id));
    if (marks && taken) return library_;
    if (!taken && !special && library_) spec.apart.push_back(static_cast<int32_t>(id));
    spec.tokens[at] = text;
    spec.types[at] = special ? TokenType::control : TokenType::user_defined;
    return true;
  }

  /// Ids that no token has, and those up to the model's vocabulary, get names as llama.cpp's
  /// converter gives them.
  void fill(int64_t vocab_size) {
    const size_t size = std::max(spec.tokens.size(), static_cast<size_t>(vocab_size));
    spec.tokens.resize(size);
    spec.types.resize(size, TokenType::unused);
    if (!spec.scores.empty()) spec.scores.resize(size, kUnusedScore);
    if (!spec.exact_scores.empty()) spec.exact_scores.resize(size, kUnusedScore);
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
      // A text may end with another token than an answer, as in Qwen3-Embedding: both end answers.
      if (&role == &spec.eos && texts.size() == 1 && id != kNoToken && spec.eot == kNoToken) {
        if (role != id) std::swap(spec.eot, role);
      }
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
    if (around.separated) spec.add_sep = 1;
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
  bool library_ = true;  ///< whether it is a file of the library `tokenizers`
  TokenIds by_text_;
};

}  // namespace

std::string vocabulary_file(const std::string& directory) {
  for (const char* name : {"/tokenizer.json", "/tokenizer.model", "/tokenizer.jsonl",
                           "/tiktoken.model", "/qwen.tiktoken"}) {
    if (is_file(directory + name)) return directory + name;
  }
  return "";
}

Result<TokenizerSpec> read_tokenizer(const std::string& directory, const Metadata& config) {
  // Where several are there, the first says most.
  const std::string path = vocabulary_file(directory);
  if (path.empty()) {
    TokenizerSpec none;
    none.source = directory;
    none.model = "none";
    return none;
  }
  Json tokenizer = Json::object();
  if (path.ends_with(".json")) {
    INFER_TRY(tokenizer, read_json_document(path));
  }
  INFER_TRY(const Json tokenizer_config, read_beside(directory, "tokenizer_config.json"));
  INFER_TRY(const Json special, read_beside(directory, "special_tokens_map.json"));
  int64_t vocab_size = 0;
  for (const char* key : {"hf.config.text_config.vocab_size", "hf.config.llm_config.vocab_size",
                          "hf.config.vocab_size"}) {
    INFER_TRY(const auto found, config.get_int(key, 0, kMaxTokens));
    if (found && vocab_size == 0) vocab_size = *found;
  }
  JsonProblem problem{path, {}}, config_problem{directory + "/tokenizer_config.json", {}};
  TokenizerReader reader(tokenizer, tokenizer_config, special, problem, config_problem);
  if (path.ends_with("tiktoken.model") || path.ends_with(".tiktoken")) {
    INFER_TRY(reader.spec, read_ranked_tokens(path));
    const auto in_file = static_cast<int64_t>(reader.spec.tokens.size());
    reader.read_beside_ranks(vocab_size > 0 ? std::max(vocab_size, in_file) : 0);
  } else if (path.ends_with(".model")) {
    INFER_TRY(reader.spec, read_sentencepiece_model(path));
    INFER_TRY(const Json added, read_beside(directory, "added_tokens.json"));
    const auto in_model = static_cast<int64_t>(reader.spec.tokens.size());
    reader.read_beside_sentencepiece(added, vocab_size > 0 ? std::max(vocab_size, in_model) : 0);
  } else if (path.ends_with(".jsonl")) {
    INFER_TRY(reader.spec, read_token_rows(path));
    reader.read_beside_rows(vocab_size);
  } else {
    reader.spec.source = path;
    reader.read(vocab_size);
  }
  if (!problem.ok()) return tl::unexpected(std::move(problem.status));
  if (!config_problem.ok()) return tl::unexpected(std::move(config_problem.status));
  return std::move(reader.spec);
}

}  // namespace infer::safetensors
