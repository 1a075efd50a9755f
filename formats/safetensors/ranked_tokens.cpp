#include "formats/safetensors/ranked_tokens.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/core/file.h"
#include "engine/weights/byte_alphabet.h"
#include "formats/safetensors/tokenizer_parts.h"

namespace infer::safetensors {
namespace {

constexpr uint64_t kMostFileBytes = uint64_t{64} << 20;
constexpr size_t kMostTokenBytes = 1024;
/// Of all merges together. Those of published files take a twentieth of it.
constexpr size_t kMostMergeBytes = size_t{256} << 20;

/// The bytes of a text in base64; nothing if it is none.
std::optional<std::string> from_base64(std::string_view text) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held >= 8) bytes += static_cast<char>(bits >> (held -= 8) & 0xff);
  }
  return bytes;
}

std::string in_alphabet(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) append_letter(text, static_cast<uint8_t>(c));
  return text;
}

class RankedTokens {
 public:
  explicit RankedTokens(const std::string& path) : path_(path) {}

  Status read_line(std::string_view line, int64_t number) {
    const size_t space = line.find(' ');
    int64_t rank = -1;
    if (space != std::string_view::npos) {
      const std::string_view digits = line.substr(space + 1);
      const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
      if (end.ec != std::errc() || end.ptr != digits.data() + digits.size()) rank = -1;
    }
    const auto wrong = [&](const std::string& expected) {
      return error(StatusCode::bad_file, "{}: line {}: expected {}, found '{}'", path_, number,
                   expected, printable(line));
    };
    if (rank < 0 || rank >= kMaxTokens) {
      return wrong(fmt::format("bytes in base64, a space and a rank below {}", kMaxTokens));
    }
    std::optional<std::string> bytes = from_base64(line.substr(0, space));
    if (!bytes || bytes->empty() || bytes->size() > kMostTokenBytes) {
      return wrong(fmt::format("1 to {} bytes in base64", kMostTokenBytes));
    }
    const auto at = static_cast<size_t>(rank);
    if (at >= tokens_.size()) tokens_.resize(at + 1);
    if (!tokens_[at].empty()) return wrong("a rank that no line before it has");
    tokens_[at] = *std::move(bytes);
    return {};
  }

  Result<TokenizerSpec> finish() {
    if (tokens_.empty()) {
      return fail(StatusCode::bad_file, "{}: expected tokens, found none", path_);
    }
    std::unordered_map<std::string_view, size_t> ranks;
    for (size_t rank = 0; rank < tokens_.size(); ++rank) {
      if (tokens_[rank].empty()) {
        return fail(StatusCode::bad_file, "{}: expected a token of rank {}", path_, rank);
      }
      if (!ranks.emplace(tokens_[rank], rank).second) {
        return fail(StatusCode::bad_file, "{}: the token of rank {} has the bytes of another",
                    path_, rank);
      }
    }
    TokenizerSpec spec;
    spec.source = path_;
    spec.model = "gpt2";
    spec.ignore_merges = 1;
    for (const std::string& token : tokens_) spec.tokens.push_back(in_alphabet(token));
    spec.types.assign(tokens_.size(), TokenType::normal);
    size_t merged = 0;
    for (const std::string& token : tokens_) {
      const std::string_view all = token;
      for (size_t cut = 1; cut < all.size(); ++cut) {
        const auto left = ranks.find(all.substr(0, cut));
        const auto right = ranks.find(all.substr(cut));
        if (left == ranks.end() || right == ranks.end()) continue;
        spec.merges.push_back(spec.tokens[left->second] + " " + spec.tokens[right->second]);
        merged += spec.merges.back().size();
        if (merged > kMostMergeBytes) {
          return fail(StatusCode::bad_file, "{}: expected at most {} MiB of merges", path_,
                      kMostMergeBytes >> 20);
        }
      }
    }
    return spec;
  }

 private:
  const std::string& path_;
  std::vector<std::string> tokens_;  ///< bytes, by rank
};

}  // namespace

Result<TokenizerSpec> read_ranked_tokens(const std::string& path) {
  INFER_TRY(const File file, File::open(path));
  if (file.size() > kMostFileBytes) {
    return fail(StatusCode::bad_file, "{}: expected at most {} bytes, found {}", path,
                kMostFileBytes, file.size());
  }
  std::string bytes(file.size(), '\0');
  INFER_CHECK_R(file.read_at(0, std::as_writable_bytes(std::span(bytes))));
  RankedTokens reader(path);
  std::string_view rest = bytes;
  for (int64_t number = 1; !rest.empty(); ++number) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) INFER_CHECK_R(reader.read_line(line, number));
  }
  return reader.finish();
}

}  // namespace infer::safetensors
