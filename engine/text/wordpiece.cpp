// WordPiece (BERT): the text is cleaned, lower-cased and rid of accents, cut at white space,
// punctuation and ideographs, and each word is taken apart into the longest tokens from the left.
// Files spell the beginning of a word ▁ and leave out the ## of what continues it, so that a ▁ in
// the text itself must not be taken for the beginning of a word.
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "engine/text/byte_trie.h"
#include "engine/text/split_rules.h"
#include "engine/text/text_encoder.h"
#include "engine/text/unicode.h"

namespace infer {
namespace {

constexpr char32_t kDottedI = 0x130;   // LATIN CAPITAL LETTER I WITH DOT ABOVE
constexpr char32_t kDotAbove = 0x307;  // COMBINING DOT ABOVE

// Longer tokens are left out: it bounds the work per character against a hostile file.
constexpr size_t kMaxPieceBytes = 512;

/// The blocks that BERT takes apart into single characters.
bool is_cjk(char32_t c) {
  constexpr std::array<std::pair<char32_t, char32_t>, 8> kBlocks{{{0x3400, 0x4dbf},
                                                                  {0x4e00, 0x9fff},
                                                                  {0xf900, 0xfaff},
                                                                  {0x20000, 0x2a6df},
                                                                  {0x2a700, 0x2b73f},
                                                                  {0x2b740, 0x2b81f},
                                                                  {0x2b920, 0x2ceaf},
                                                                  {0x2f800, 0x2fa1f}}};
  for (const auto& [first, last] : kBlocks) {
    if (c >= first && c <= last) return true;
  }
  return false;
}

bool is_dropped(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return c == 0 || c == kReplacement || (char_class(c) & kControl) != 0;
}

class Wordpiece : public TextEncoder {
 public:
  explicit Wordpiece(const TokenizerSpec& spec)
      : unknown_(unknown_token(spec)),
        lowercase_(spec.lowercase != 0),
        strip_accents_(spec.strip_accents < 0 ? lowercase_ : spec.strip_accents != 0),
        most_chars_(static_cast<size_t>(std::max(spec.max_word_chars, 0))) {
    std::vector<std::pair<std::string_view, int32_t>> begins, continues;
    for (size_t i = 0; i < spec.tokens.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (!is_text_token(spec, id) || spec.tokens[i].size() > kMaxPieceBytes) continue;
      const std::string_view token = spec.tokens[i];
      const bool begin = token.starts_with(kSpaceMark) && token.size() > kSpaceMark.size();
      if (begin) {
        begins.emplace_back(token.substr(kSpaceMark.size()), id);
      } else {
        continues.emplace_back(token, id);
      }
    }
    begins_ = ByteTrie(std::move(begins));
    continues_ = ByteTrie(std::move(continues));
  }

  std::string normalise(std::string_view text, bool) const override {
    std::string out;
    out.reserve(text.size());
    const auto put = [&](char32_t c) {
      const bool apart = is_cjk(c);
      if (apart) out += ' ';
      append_utf8(out, (char_class(c) & kSpace) != 0 ? U' ' : c);
      if (apart) out += ' ';
    };
    for (size_t pos = 0; pos < text.size();) {
      const Utf8Char c = decode_utf8(text, pos);
      pos += c.size;
      if (!is_dropped(c.code)) map(c.code, put);
    }
    return out;
  }

  Status encode(std::string_view text, bool, std::vector<int32_t>& out) const override {
    std::string word;
    size_t chars = 0;
    const auto finish_word = [&] {
      if (!word.empty()) encode_word(word, chars, out);
      word.clear();
      chars = 0;
    };
    for (size_t pos = 0; pos < text.size();) {
      const Utf8Char c = decode_utf8(text, pos);
      const uint32_t classes = char_class(c.code);
      const bool space = (classes & kSpace) != 0;
      const bool apart = (classes & kPunctuation) != 0 || split::is_ascii_punctuation(c.code);
      if (space || apart) finish_word();
      if (!space) {
        word += text.substr(pos, c.size);
        ++chars;
      }
      if (apart) finish_word();
      pos += c.size;
    }
    finish_word();
    return {};
  }

  std::string piece(std::string_view token) const override { return unescape_spaces(token); }
  bool adds_space_prefix() const override { return true; }
  bool default_add_bos() const override { return true; }

 private:
  template <typename Put>
  void map(char32_t c, Put&& put) const {
    const auto lower = [&](char32_t x) {
      return lowercase_ ? static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(x)))
                        : x;
    };
    if (!strip_accents_ && lowercase_ && c == kDottedI) {
      put(U'i');
      return put(kDotAbove);  // the only letter whose small form is two characters
    }
    if (!strip_accents_ || c < 0x80) return put(lower(c));
    // Canonical decompositions are at most four characters long; marks need not be put in order,
    // as those that could be out of order are dropped.
    std::array<utf8proc_int32_t, 16> parts{};
    int boundary_class = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(),
                                UTF8PROC_DECOMPOSE, &boundary_class);
    if (count < 0 || count > static_cast<utf8proc_ssize_t>(parts.size())) return put(lower(c));
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      const auto part = static_cast<char32_t>(parts[static_cast<size_t>(i)]);
      if ((char_class(part) & kNonspacing) == 0) put(lower(part));
    }
  }

  void encode_word(std::string_view word, size_t chars, std::vector<int32_t>& out) const {
    const size_t before = out.size();
    if (chars > most_chars_) {
      if (unknown_ != kNoToken) out.push_back(unknown_);
      return;
    }
    for (size_t pos = 0; pos < word.size();) {
      const ByteTrie& tokens = pos == 0 ? begins_ : continues_;
      const ByteTrie::Match match = tokens.longest_prefix(word.substr(pos));
      if (match.value < 0) {
        // A word that cannot be taken apart completely is unknown as a whole.
        out.resize(before);
        if (unknown_ != kNoToken) out.push_back(unknown_);
        return;
      }
      out.push_back(match.value);
      pos += match.size;
    }
  }

  ByteTrie begins_;     ///< tokens that begin a word, without their ▁
  ByteTrie continues_;  ///< tokens within a word
  int32_t unknown_;
  bool lowercase_;
  bool strip_accents_;
  size_t most_chars_;  ///< of a word
};

}  // namespace

Result<std::unique_ptr<TextEncoder>> make_wordpiece(const TokenizerSpec& spec) {
  return std::make_unique<Wordpiece>(spec);
}

}  // namespace infer
