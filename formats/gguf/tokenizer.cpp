#include "formats/gguf/tokenizer.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "engine/weights/tokenizer_keys.h"

namespace infer::gguf {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 30;
constexpr int64_t kNoTokenUnsigned = 0xffffffff;

Status check_length(const Metadata& metadata, const char* key, size_t found, size_t tokens) {
  if (found == tokens) return {};
  return error(StatusCode::bad_file,
               "{}: key '{}': expected {} elements, as many as there are tokens, found {}",
               metadata.source(), key, tokens, found);
}

Status read_tokens(const Metadata& metadata, TokenizerSpec& spec) {
  constexpr const char* kKey = "tokenizer.ggml.tokens";
  INFER_TRY_S(const auto* tokens, metadata.get_strings(kKey));
  if (tokens != nullptr) spec.tokens = *tokens;
  const bool expected = !spec.model.empty() && spec.model != "none";
  if (expected && spec.tokens.empty()) {
    return error(StatusCode::bad_file,
                 "{}: key '{}': expected the vocabulary of a '{}' tokenizer, "
                 "found {}",
                 metadata.source(), kKey, spec.model,
                 tokens == nullptr ? "no such key" : "no tokens");
  }
  if (static_cast<int64_t>(spec.tokens.size()) > kMaxTokens) {
    return error(StatusCode::bad_file, "{}: key '{}': expected at most {} tokens, found {}",
                 metadata.source(), kKey, kMaxTokens, spec.tokens.size());
  }
  return {};
}

Status read_scores(const Metadata& metadata, TokenizerSpec& spec) {
  constexpr const char* kKey = "tokenizer.ggml.scores";
  INFER_TRY_S(auto scores, metadata.get_floats(kKey));
  if (!scores) return {};
  INFER_CHECK(check_length(metadata, kKey, scores->size(), spec.tokens.size()));
  for (size_t i = 0; i < scores->size(); ++i) {
    if (std::isnan((*scores)[i])) {
      return error(StatusCode::bad_file, "{}: key '{}': the score of token {} is not a number",
                   metadata.source(), kKey, i);
    }
  }
  spec.scores = *std::move(scores);
  return {};
}

Status read_types(const Metadata& metadata, TokenizerSpec& spec) {
  constexpr const char* kKey = "tokenizer.ggml.token_type";
  constexpr auto kLast = static_cast<int64_t>(TokenType::byte);
  // 0 stands for "undefined" in some files: a token like any other.
  INFER_TRY_S(const auto types, metadata.get_ints(kKey, 0, kLast));
  if (!types) return {};
  INFER_CHECK(check_length(metadata, kKey, types->size(), spec.tokens.size()));
  spec.types.reserve(types->size());
  for (const int64_t type : *types) {
    spec.types.push_back(type == 0 ? TokenType::normal : static_cast<TokenType>(type));
  }
  return {};
}

Status read_charsmap(const Metadata& metadata, TokenizerSpec& spec) {
  // Bytes, which some writers store as signed ones.
  INFER_TRY_S(const auto bytes,
              metadata.get_ints("tokenizer.ggml.precompiled_charsmap", INT8_MIN, UINT8_MAX));
  if (!bytes) return {};
  spec.precompiled_charsmap.reserve(bytes->size());
  for (const int64_t byte : *bytes) {
    spec.precompiled_charsmap.push_back(static_cast<uint8_t>(byte));
  }
  return {};
}

Status read_ids(const Metadata& metadata, TokenizerSpec& spec) {
  const auto count = static_cast<int64_t>(spec.tokens.size());
  for (const TokenIdKey& entry : token_id_keys()) {
    const bool old = entry.old_key != nullptr && !metadata.has(entry.key);
    const char* key = old ? entry.old_key : entry.key;
    INFER_TRY_S(const auto id, metadata.get_int(key, -1, kNoTokenUnsigned));
    if (!id || *id == -1 || *id == kNoTokenUnsigned) continue;
    if (*id >= count) {
      return error(StatusCode::bad_file,
                   "{}: key '{}': expected a token of the vocabulary, 0 to {}, found {}",
                   metadata.source(), key, count - 1, *id);
    }
    spec.*entry.field = static_cast<int32_t>(*id);
  }
  return {};
}

/// What `convert` keeps of a tokenizer.json under keys of our own.
Status read_own_keys(const Metadata& metadata, TokenizerSpec& spec) {
  for (const OwnFlagKey& entry : own_flag_keys()) {
    INFER_TRY_S(const auto flag, metadata.get_bool(entry.key));
    if (flag) spec.*entry.field = *flag;
  }
  const auto last = static_cast<int64_t>(spec.tokens.size()) - 1;
  for (const OwnIdsKey& entry : own_ids_keys()) {
    INFER_TRY_S(const auto ids, metadata.get_ints(entry.key, 0, last));
    if (ids) (spec.*entry.field).assign(ids->begin(), ids->end());
  }
  if (const MetaValue* scores = metadata.find(kExactScoresKey)) {
    const auto* exact = std::get_if<std::vector<double>>(scores);
    const auto finite = [](double score) { return std::isfinite(score); };
    if (exact == nullptr || exact->size() != spec.scores.size() ||
        !std::all_of(exact->begin(), exact->end(), finite)) {
      return error(StatusCode::bad_file,
                   "{}: key '{}': expected a float64 for each of the {} scores", metadata.source(),
                   kExactScoresKey, spec.scores.size());
    }
    spec.exact_scores = *exact;
  }
  for (const OwnCountKey& entry : own_count_keys()) {
    INFER_TRY_S(const auto count, metadata.get_int(entry.key, 0, INT32_MAX));
    if (count) spec.*entry.field = static_cast<int32_t>(*count);
  }
  return {};
}

Status read_templates(const Metadata& metadata, TokenizerSpec& spec) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  constexpr std::string_view kNamed = "tokenizer.chat_template.";
  INFER_TRY_S(auto text, metadata.get_string(kKey));
  if (text) spec.chat_template = *std::move(text);
  const auto& values = metadata.values();
  for (auto it = values.lower_bound(kNamed); it != values.end(); ++it) {
    if (!it->first.starts_with(kNamed)) break;
    INFER_TRY_S(auto named, metadata.get_string(it->first));
    spec.named_chat_templates.emplace_back(it->first.substr(kNamed.size()), *std::move(named));
  }
  return {};
}

Status read_vocabulary(const Metadata& metadata, TokenizerSpec& spec) {
  INFER_CHECK(read_scores(metadata, spec));
  INFER_CHECK(read_types(metadata, spec));
  INFER_TRY_S(const auto* merges, metadata.get_strings("tokenizer.ggml.merges"));
  if (merges != nullptr) spec.merges = *merges;
  INFER_CHECK(read_charsmap(metadata, spec));
  INFER_CHECK(read_own_keys(metadata, spec));
  return read_ids(metadata, spec);
}

}  // namespace

Result<TokenizerSpec> read_tokenizer(const Metadata& metadata) {
  TokenizerSpec spec;
  spec.source = metadata.source();
  INFER_TRY(auto model, metadata.get_string("tokenizer.ggml.model"));
  spec.model = std::move(model).value_or("");
  INFER_TRY(auto pre, metadata.get_string("tokenizer.ggml.pre"));
  spec.pre = std::move(pre).value_or("");
  INFER_CHECK_R(read_tokens(metadata, spec));
  if (!spec.tokens.empty()) INFER_CHECK_R(read_vocabulary(metadata, spec));
  for (const TokenizerFlagKey& entry : tokenizer_flag_keys()) {
    INFER_TRY(const auto flag, metadata.get_bool(entry.key));
    if (flag) spec.*entry.field = *flag ? 1 : 0;
  }
  INFER_CHECK_R(read_templates(metadata, spec));
  return spec;
}

}  // namespace infer::gguf
