// SentencePiece Unigram (T5, XLM-R): of all ways to take a text apart into tokens the one with the
// greatest sum of scores (Kudo 2018, section 3.2), found from left to right (Viterbi).
#include <algorithm>
#include <cfloat>
#include <limits>

#include "engine/text/byte_trie.h"
#include "engine/text/charsmap.h"
#include "engine/text/text_encoder.h"
#include "engine/text/unicode.h"

namespace infer {
namespace {

// How much worse than the worst token an unknown character scores.
constexpr double kUnknownPenalty = 10.0;

class Unigram : public TextEncoder {
 public:
  Unigram(const TokenizerSpec& spec, Charsmap charsmap)
      : charsmap_(std::move(charsmap)),
        scores_(spec.exact_scores.empty()
                    ? std::vector<double>(spec.scores.begin(), spec.scores.end())
                    : spec.exact_scores),
        bytes_(byte_tokens(spec)),
        unknown_(unknown_token(spec)),
        space_prefix_(spec.add_space_prefix == 1),
        unless_space_(spec.prefix_unless_space),
        strip_left_(spec.strip_left),
        strip_right_(spec.strip_right),
        strips_first_(spec.strips_first),
        maps_graphemes_(spec.maps_graphemes),
        cuts_at_marks_(spec.cuts_at_marks || spec.words_at_white_space),
        words_at_white_space_(spec.words_at_white_space),
        merge_spaces_(spec.remove_extra_whitespaces == 1 && !strip_left_ && !strip_right_ &&
                      !cuts_at_marks_),
        join_spaces_(merge_spaces_ || spec.join_spaces),
        joins_to_marks_(spec.joins_to_marks) {
    byte_fallback_ = std::find(bytes_.begin(), bytes_.end(), kNoToken) == bytes_.end();
    double worst = std::numeric_limits<double>::max();
    std::vector<std::pair<std::string_view, int32_t>> entries;
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      const TokenType type = token_type(spec, id);
      if (type == TokenType::normal) worst = std::min(worst, scores_[i]);
      if (type == TokenType::user_defined) scores_[i] = 0;
      const bool text = (type == TokenType::normal || type == TokenType::user_defined) &&
                        !contains(spec.apart, id);
      if (text && spec.tokens[i].size() <= kMaxPieceBytes) entries.emplace_back(spec.tokens[i], id);
    }
    tokens_ = ByteTrie(std::move(entries));
    unknown_score_ = worst - kUnknownPenalty;
  }

  std::string normalise(std::string_view text, bool fresh) const override;
  Status encode(std::string_view text, bool fresh, std::vector<int32_t>& out) const override;

  std::string piece(std::string_view token) const override { return unescape_spaces(token); }
  bool adds_space_prefix() const override { return space_prefix_; }

 private:
  // The best way to get to a position: the last token and where it begins.
  struct Step {
    double score = -DBL_MAX;
    uint32_t begin = 0;
    int32_t id = kNoToken;  ///< kNoToken: a character that has no token
  };

  std::string mapped(std::string_view text) const;
  void encode_marked(std::string_view text, std::vector<int32_t>& out) const;
  void best_path(std::string_view text, std::vector<int32_t>& out) const;
  void emit(std::string_view text, const std::vector<Step>& steps, uint32_t end,
            std::vector<int32_t>& out) const;

  Charsmap charsmap_;
  ByteTrie tokens_;
  std::vector<double> scores_;
  std::vector<int32_t> bytes_;
  int32_t unknown_;
  bool space_prefix_;
  bool unless_space_;
  bool strip_left_, strip_right_, strips_first_;
  bool maps_graphemes_;
  bool cuts_at_marks_;
  bool words_at_white_space_;
  bool merge_spaces_;
  bool join_spaces_;
  bool joins_to_marks_;
  bool byte_fallback_ = false;
  double unknown_score_ = 0;
};

std::string Unigram::mapped(std::string_view text) const {
  constexpr size_t kMaxWhole = 5;  // bytes
  std::string out;
  out.reserve(text.size() + 1);
  // Takes `size` bytes, whatever is mapped of them.
  const auto take = [&](Charsmap::Mapping m, size_t size) {
    if (m.size > 0) out += m.replacement;
    text.remove_prefix(m.size > 0 ? size : 0);
    return m.size > 0;
  };
  const auto take_character = [&] {
    const Utf8Char c = decode_utf8(text, 0);
    append_utf8(out, c.code);
    text.remove_prefix(c.size);
  };
  while (!text.empty()) {
    if (!maps_graphemes_) {
      const Charsmap::Mapping m = charsmap_.find(text);
      if (!take(m, m.size)) take_character();
      continue;
    }
    const size_t size = grapheme_size(text);
    if (size <= kMaxWhole && take(charsmap_.find_shortest(text.substr(0, size)), size)) continue;
    for (const size_t rest = text.size() - size; text.size() > rest;) {
      const size_t one = decode_utf8(text, 0).size;
      if (!take(charsmap_.find_shortest(text.substr(0, one)), one)) take_character();
    }
  }
  return out;
}

std::string Unigram::normalise(std::string_view text, bool fresh) const {
  const auto strip = [&](std::string_view& from) {
    if (strip_left_) from.remove_prefix(leading_white(from));
    if (strip_right_) from.remove_suffix(trailing_white(from));
  };
  if (strips_first_) strip(text);
  const std::string whole = mapped(text);
  std::string_view kept = whole;
  if (!strips_first_) strip(kept);
  if (merge_spaces_) {
    kept.remove_prefix(std::min(kept.find_first_not_of(' '), kept.size()));
    while (kept.ends_with(' ')) kept.remove_suffix(1);
  }
  std::string out;
  out.reserve(kept.size());
  for (size_t pos = 0; pos < kept.size();) {
    size_t spaces = 0;
    while (join_spaces_ && pos + spaces < kept.size() && kept[pos + spaces] == ' ') ++spaces;
    if (spaces > 1) {
      out += joins_to_marks_ ? kSpaceMark : " ";
      pos += spaces;
    } else {
      out += kept[pos++];
    }
  }
  return unless_space_ ? out : with_marks(out, space_prefix_ && fresh);
}

Status Unigram::encode(std::string_view text, bool fresh, std::vector<int32_t>& out) const {
  const auto marked = [&](std::string_view word) {
    return with_marks(word, fresh && space_prefix_ && !begins_with_space(word));
  };
  if (words_at_white_space_) {
    for (text.remove_prefix(leading_white(text)); !text.empty();) {
      size_t end = 0;
      while (end < text.size() && leading_white(text.substr(end)) == 0) {
        end += decode_utf8(text, end).size;
      }
      encode_marked(marked(text.substr(0, end)), out);
      text.remove_prefix(end);
      text.remove_prefix(leading_white(text));
    }
  } else if (unless_space_) {
    encode_marked(marked(text), out);
  } else {
    encode_marked(text, out);
  }
  return {};
}

void Unigram::encode_marked(std::string_view text, std::vector<int32_t>& out) const {
  while (!text.empty()) {
    const size_t end =
        cuts_at_marks_ ? std::min(text.find(kSpaceMark, 1), text.size()) : text.size();
    best_path(text.substr(0, end), out);
    text.remove_prefix(end);
  }
}

void Unigram::best_path(std::string_view text, std::vector<int32_t>& out) const {
  std::vector<Step> steps(text.size() + 1);
  steps[0].score = 0;
  const auto offer = [&](size_t begin, size_t end, double score, int32_t id) {
    const double sum = steps[begin].score + score;
    if (sum > steps[end].score) steps[end] = {sum, static_cast<uint32_t>(begin), id};
  };
  for (size_t pos = 0; pos < text.size();) {
    const size_t size = decode_utf8(text, pos).size;
    bool has_character = false;
    uint32_t node = ByteTrie::kRoot;
    for (size_t end = pos; end < text.size();) {
      node = tokens_.step(node, static_cast<uint8_t>(text[end++]));
      if (node == ByteTrie::kNone) break;
      const int32_t id = tokens_.value(node);
      if (id < 0) continue;
      has_character = has_character || end == pos + size;
      offer(pos, end, scores_[static_cast<size_t>(id)], id);
    }
    if (!has_character) offer(pos, pos + size, unknown_score_, kNoToken);
    pos += size;
  }
  emit(text, steps, static_cast<uint32_t>(text.size()), out);
}

void Unigram::emit(std::string_view text, const std::vector<Step>& steps, uint32_t end,
                   std::vector<int32_t>& out) const {
  // Backwards, then turned round.
  const size_t first = out.size();
  bool after_unknown = false;
  while (end > 0) {
    const Step& step = steps[end];
    const bool unknown = step.id == kNoToken;
    if (!unknown) {
      out.push_back(step.id);
    } else if (byte_fallback_) {
      for (uint32_t i = end; i > step.begin; --i) {
        out.push_back(bytes_[static_cast<uint8_t>(text[i - 1])]);
      }
    } else if (!after_unknown && unknown_ != kNoToken) {
      // A run of unknown characters is one token.
      out.push_back(unknown_);
    }
    after_unknown = unknown;
    end = step.begin;
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

}  // namespace

Result<std::unique_ptr<TextEncoder>> make_unigram(const TokenizerSpec& spec) {
  INFER_CHECK_R(check_scores(spec));
  INFER_TRY(Charsmap charsmap, Charsmap::parse(spec.precompiled_charsmap, spec.source));
  return std::make_unique<Unigram>(spec, std::move(charsmap));
}

}  // namespace infer
