#include "formats/safetensors/token_rows.h"

#include <cmath>
#include <string_view>

#include "engine/core/file.h"
#include "formats/safetensors/json_document.h"
#include "formats/safetensors/tokenizer_parts.h"

namespace infer::safetensors {
namespace {

constexpr uint64_t kMostBytes = uint64_t{256} << 20;

TokenType type_of(const std::string& token, std::string_view kind) {
  if (kind == "BYTE") return TokenType::byte;
  if (kind == "UNKNOWN") return TokenType::unknown;
  const bool special = token.starts_with("<|plamo:") && token.ends_with("|>");
  return special || kind == "CONTROL" ? TokenType::control : TokenType::normal;
}

void add_row(const JsonPlace& row, TokenizerSpec& spec) {
  if (row.size() < 2) {
    row.expected("an array of a token, its score and its kind");
    return;
  }
  spec.tokens.push_back(row.at(size_t{0}).text());
  spec.scores.push_back(static_cast<float>(row.at(size_t{1}).number()));
  if (!std::isfinite(spec.scores.back())) row.at(size_t{1}).expected("a finite number");
  const std::string kind = row.size() > 2 ? row.at(size_t{2}).text("") : "";
  spec.types.push_back(type_of(spec.tokens.back(), kind));
}

void name_special_tokens(TokenizerSpec& spec) {
  constexpr std::pair<std::string_view, int32_t TokenizerSpec::*> kRoles[] = {
      {"<|plamo:unk|>", &TokenizerSpec::unknown},
      {"<|plamo:bos|>", &TokenizerSpec::bos},
      {"<|plamo:eos|>", &TokenizerSpec::eos},
      {"<|plamo:pad|>", &TokenizerSpec::padding},
      {"<|plamo:op|>", &TokenizerSpec::eot}};  // ends what a speaker says
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    for (const auto& [spelling, role] : kRoles) {
      if (spec.tokens[i] == spelling) spec.*role = static_cast<int32_t>(i);
    }
  }
}

}  // namespace

Result<TokenizerSpec> read_token_rows(const std::string& path) {
  INFER_TRY(const File file, File::open(path));
  if (file.size() > kMostBytes) {
    return fail(StatusCode::bad_file, "{}: expected at most {} bytes, found {}", path, kMostBytes,
                file.size());
  }
  std::string bytes(file.size(), '\0');
  INFER_CHECK_R(file.read_at(0, std::as_writable_bytes(std::span(bytes))));
  TokenizerSpec spec;
  spec.source = path;
  spec.model = "plamo2";
  spec.pre = "default";
  std::string_view rest = bytes;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{}: line {}", path, number);
    if (static_cast<int64_t>(spec.tokens.size()) >= kMaxTokens) {
      return fail(StatusCode::bad_file, "{}: expected at most {} tokens", where, kMaxTokens);
    }
    INFER_TRY(const Json row, parse_json(where, fmt::format(R"({{"row":{}}})", line)));
    JsonProblem problem{where, {}};
    add_row(JsonPlace(row, problem).at("row"), spec);
    if (!problem.ok()) return tl::unexpected(std::move(problem.status));
  }
  if (spec.tokens.empty()) {
    return fail(StatusCode::bad_file, "{}: expected tokens, found none", path);
  }
  name_special_tokens(spec);
  return spec;
}

}  // namespace infer::safetensors
