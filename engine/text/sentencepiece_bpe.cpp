// SentencePiece BPE (Llama 1 and 2, Mistral, Gemma, Phi-3): characters are merged pair by pair, the
// pair whose result scores best first; characters without a token become byte tokens.
#include <cmath>
#include <queue>

#include "engine/text/special_tokens.h"
#include "engine/text/text_encoder.h"
#include "engine/text/unicode.h"

namespace infer {
namespace {

class SentencepieceBpe : public TextEncoder {
 public:
  explicit SentencepieceBpe(const TokenizerSpec& spec)
      : scores_(spec.scores),
        bytes_(byte_tokens(spec)),
        unknown_(unknown_token(spec)),
        space_prefix_(spec.add_space_prefix != 0),
        unless_space_(spec.prefix_unless_space) {
    tokens_.reserve(spec.tokens.size());
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      const std::string& token = spec.tokens[i];
      if (token.empty() || !is_text_token(spec, id)) continue;
      tokens_.emplace(token, id);
      longest_ = std::max(longest_, token.size());
    }
  }

  std::string normalise(std::string_view text, bool fresh) const override {
    return unless_space_ ? std::string(text) : with_marks(text, fresh && space_prefix_);
  }
  Status encode(std::string_view text, bool fresh, std::vector<int32_t>& out) const override {
    if (text.empty()) return {};
    if (unless_space_) {
      merge(with_marks(text, fresh && space_prefix_ && !begins_with_space(text)), out);
    } else {
      merge(text, out);
    }
    return {};
  }

  std::string piece(std::string_view token) const override { return unescape_spaces(token); }
  bool adds_space_prefix() const override { return space_prefix_; }
  bool default_add_bos() const override { return true; }

 private:
  // A run of bytes that has become one token; size 0: taken into its left neighbour.
  struct Symbol {
    uint32_t begin;
    uint32_t size;
    int32_t previous;
    int32_t next;
  };
  struct Pair {
    float score;
    int32_t left;
    uint32_t size;  // of both together: tells a pair that has changed since
    bool operator<(const Pair& other) const {
      return score < other.score || (score == other.score && left > other.left);
    }
  };

  int32_t find(std::string_view text) const {
    if (text.size() > longest_) return kNoToken;
    const auto it = tokens_.find(text);
    return it == tokens_.end() ? kNoToken : it->second;
  }

  void merge(std::string_view text, std::vector<int32_t>& out) const {
    std::vector<Symbol> symbols;
    symbols.reserve(text.size());
    for (size_t pos = 0; pos < text.size();) {
      const uint32_t size = decode_utf8(text, pos).size;
      const auto index = static_cast<int32_t>(symbols.size());
      symbols.push_back({static_cast<uint32_t>(pos), size, index - 1, index + 1});
      pos += size;
    }
    symbols.back().next = -1;

    std::vector<Pair> storage;
    storage.reserve(symbols.size());
    std::priority_queue<Pair> queue(std::less<Pair>{}, std::move(storage));
    const auto at = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
    const auto offer = [&](int32_t left, int32_t right) {
      if (left < 0 || right < 0) return;
      const uint32_t size = at(left).size + at(right).size;
      const int32_t id = find(text.substr(at(left).begin, size));
      if (id != kNoToken) queue.push({scores_[static_cast<size_t>(id)], left, size});
    };
    for (int32_t i = 1; i < static_cast<int32_t>(symbols.size()); ++i) offer(i - 1, i);

    while (!queue.empty()) {
      const Pair pair = queue.top();
      queue.pop();
      Symbol& left = at(pair.left);
      if (left.size == 0 || left.next < 0) continue;
      Symbol& right = at(left.next);
      if (left.size + right.size != pair.size) continue;
      left.size = pair.size;
      right.size = 0;
      left.next = right.next;
      if (right.next >= 0) at(right.next).previous = pair.left;
      offer(left.previous, pair.left);
      offer(pair.left, left.next);
    }

    bool after_unknown = false;
    for (int32_t i = 0; i >= 0; i = at(i).next) {
      after_unknown = emit(text.substr(at(i).begin, at(i).size), after_unknown, out);
    }
  }

  // Returns whether the symbol became the unknown token: a run of them is one token.
  bool emit(std::string_view symbol, bool after_unknown, std::vector<int32_t>& out) const {
    if (const int32_t id = find(symbol); id != kNoToken) {
      out.push_back(id);
      return false;
    }
    bool unknown = false;
    for (const char c : symbol) {
      const int32_t id = bytes_[static_cast<uint8_t>(c)];
      if (id != kNoToken) {
        out.push_back(id);
        unknown = after_unknown = false;
      } else if (unknown_ != kNoToken) {
        if (!after_unknown) out.push_back(unknown_);
        unknown = after_unknown = true;
      }
    }
    return unknown;
  }

  TokenMap tokens_;
  const std::vector<float>& scores_;
  std::vector<int32_t> bytes_;
  int32_t unknown_;
  bool space_prefix_;
  bool unless_space_;
  size_t longest_ = 0;
};

}  // namespace

Result<std::unique_ptr<TextEncoder>> make_sentencepiece_bpe(const TokenizerSpec& spec) {
  if (spec.scores.empty()) {
    return fail(StatusCode::bad_file, "{}: tokenizer.ggml.scores is missing", spec.source);
  }
  for (size_t i = 0; i < spec.scores.size(); ++i) {
    if (std::isnan(spec.scores[i])) {
      return fail(StatusCode::bad_file, "{}: tokenizer.ggml.scores[{}] is not a number",
                  spec.source, i);
    }
  }
  return std::make_unique<SentencepieceBpe>(spec);
}

}  // namespace infer
