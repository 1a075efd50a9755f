// PLaMo 2 and 3: of all ways to take a text apart into tokens the one with the greatest sum of
// scores, found from right to left. A character may be its bytes instead, at a price. Of equal ways
// the one with the longest token counts, from the left.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/text/byte_trie.h"
#include "engine/text/text_encoder.h"
#include "engine/text/unicode.h"

namespace infer {
namespace {

constexpr double kUnits = 1e4;  // of scores
constexpr int64_t kBytesCost = 10'000'000;
constexpr int64_t kWorstScore = -20'000'000;  // those of such tokens and worse are left out
constexpr int64_t kBestScore = 1'000'000'000;
constexpr int64_t kUnreachable = std::numeric_limits<int64_t>::max() / 4;

class ScoredPieces : public TextEncoder {
 public:
  explicit ScoredPieces(const TokenizerSpec& spec)
      : bytes_(byte_tokens(spec)), repeats_(spec.cut_repeats), spaces_(spec.cut_spaces) {
    std::vector<std::pair<std::string_view, int32_t>> entries;
    scores_.resize(spec.tokens.size(), kWorstScore);
    for (size_t i = spec.tokens.size(); i-- > 0;) {  // of equal tokens the last counts
      const auto id = static_cast<int32_t>(i);
      const TokenType type = token_type(spec, id);
      if (type != TokenType::normal && type != TokenType::user_defined) continue;
      const double units = spec.scores[i] * kUnits;
      scores_[i] = std::llround(
          std::clamp(units, static_cast<double>(kWorstScore), static_cast<double>(kBestScore)));
      if (scores_[i] == kWorstScore || spec.tokens[i].size() > kMaxPieceBytes) continue;
      entries.emplace_back(spec.tokens[i], id);
    }
    tokens_ = ByteTrie(std::move(entries));
  }

  std::string normalise(std::string_view text, bool /*fresh*/) const override {
    return std::string(text);
  }
  Status encode(std::string_view text, bool fresh, std::vector<int32_t>& out) const override;
  std::string piece(std::string_view token) const override { return std::string(token); }

 private:
  // The best way from a position on: its first token, and what it all costs.
  struct Step {
    int64_t cost = kUnreachable;
    uint32_t size = 1;  ///< bytes
    int32_t id = kNoToken;
  };

  bool stands_apart(std::string_view character, int64_t count) const {
    if (spaces_ > 0 && character == " " && count >= spaces_) return true;
    return repeats_ > 0 && character != "\n" && count >= repeats_;
  }
  void best_path(std::string_view text, std::vector<int32_t>& out) const;

  ByteTrie tokens_;
  std::vector<int64_t> scores_;
  std::vector<int32_t> bytes_;
  int32_t repeats_, spaces_;
};

Status ScoredPieces::encode(std::string_view text, bool /*fresh*/,
                            std::vector<int32_t>& out) const {
  size_t begin = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t size = decode_utf8(text, pos).size;
    const std::string_view character = text.substr(pos, size);
    size_t end = pos + size;
    int64_t count = 1;
    while (text.substr(end).starts_with(character) && decode_utf8(text, end).size == size) {
      end += size;
      ++count;
    }
    if (stands_apart(character, count)) {
      best_path(text.substr(begin, pos - begin), out);
      best_path(text.substr(pos, end - pos), out);
      begin = end;
    }
    pos = end;
  }
  best_path(text.substr(begin), out);
  return {};
}

void ScoredPieces::best_path(std::string_view text, std::vector<int32_t>& out) const {
  std::vector<uint32_t> characters;
  for (size_t pos = 0; pos < text.size(); pos += decode_utf8(text, pos).size) {
    characters.push_back(static_cast<uint32_t>(pos));
  }
  std::vector<Step> steps(text.size() + 1);
  steps.back().cost = 0;
  for (size_t i = characters.size(); i-- > 0;) {
    const size_t pos = characters[i];
    Step& best = steps[pos];
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = pos; end < text.size();) {
      node = tokens_.step(node, static_cast<uint8_t>(text[end++]));
      if (node == ByteTrie::kNone) break;
      const int32_t id = tokens_.value(node);
      if (id < 0) continue;
      const int64_t cost = steps[end].cost - scores_[static_cast<size_t>(id)];
      if (cost <= best.cost) best = {cost, static_cast<uint32_t>(end - pos), id};
    }
    const size_t next = i + 1 < characters.size() ? characters[i + 1] : text.size();
    const int64_t cost = steps[next].cost + kBytesCost;
    if (cost < best.cost) best = {cost, static_cast<uint32_t>(next - pos), kNoToken};
  }
  for (size_t pos = 0; pos < text.size(); pos += steps[pos].size) {
    if (steps[pos].id != kNoToken) {
      out.push_back(steps[pos].id);
      continue;
    }
    for (const char byte : text.substr(pos, steps[pos].size)) {
      out.push_back(bytes_[static_cast<uint8_t>(byte)]);
    }
  }
}

}  // namespace

Result<std::unique_ptr<TextEncoder>> make_scored_pieces(const TokenizerSpec& spec) {
  INFER_CHECK_R(check_scores(spec));
  const std::vector<int32_t> bytes = byte_tokens(spec);
  if (const auto none = std::ranges::find(bytes, kNoToken); none != bytes.end()) {
    return fail(StatusCode::bad_file, "{}: tokenizer.ggml.tokens has no token <0x{:02X}>",
                spec.source, none - bytes.begin());
  }
  return std::make_unique<ScoredPieces>(spec);
}

}  // namespace infer
