// Hand-written matchers for the regular expressions of published pre-tokenizers. Each takes a
// position in [pos, end) and returns where the match ends, or `pos` for none; none looks outside of
// [pos, end), backtracks without bound or takes more than linear time over a whole text.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/text/char_text.h"

namespace infer::split {

/// Cuts [begin, end) at the matches of `Matcher`, which may keep state from match to match.
template <typename Matcher>
void split_by(const CharText& text, uint32_t begin, uint32_t end, std::vector<uint32_t>& ends) {
  Matcher match;
  uint32_t gap = begin;
  for (uint32_t pos = begin; pos < end;) {
    const uint32_t stop = match(text, pos, end);
    if (stop == pos) {
      ++pos;
      continue;
    }
    if (gap < pos) ends.push_back(pos);
    ends.push_back(stop);
    pos = gap = stop;
  }
  if (gap < end) ends.push_back(end);
}

inline bool is_newline(char32_t c) { return c == '\r' || c == '\n'; }
inline bool is_ascii_letter(char32_t c) {
  return (c | 0x20) >= 'a' && (c | 0x20) <= 'z' && c < 128;
}
inline bool is_ascii_punctuation(char32_t c) {
  return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
         (c >= 123 && c <= 126);
}

/// The end of a run of characters of `classes`, at most `most` of them.
inline uint32_t run_of(const CharText& text, uint32_t pos, uint32_t end, uint32_t classes,
                       uint32_t most = UINT32_MAX) {
  if (most < end - pos) end = pos + most;
  while (pos < end && text.is(pos, classes)) ++pos;
  return pos;
}

/// The end of a run of characters of none of `classes`.
inline uint32_t run_not_of(const CharText& text, uint32_t pos, uint32_t end, uint32_t classes) {
  while (pos < end && !text.is(pos, classes)) ++pos;
  return pos;
}

/// 's 't 're 've 'm 'll 'd; with `any_case` also 'S and, as full Unicode folding has it, 'ſ.
inline uint32_t contraction(const CharText& text, uint32_t pos, uint32_t end, bool any_case) {
  if (end - pos < 2 || text.code(pos) != '\'') return pos;
  const auto letter = [&](uint32_t i) -> char32_t {
    if (i >= end) return 0;
    const char32_t c = text.code(i);
    if (!any_case) return c;
    if (c == 0x17f) return 's';
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
  };
  const char32_t a = letter(pos + 1);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return pos + 2;
  const char32_t b = letter(pos + 2);
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return pos + 3;
  return pos;
}

/// What follows a run of symbols.
enum class Tail { none, newlines, newlines_and_slashes, one_newline_or_slash };

/// ` ?[^…]+` followed by a tail, … being `excluded`.
inline uint32_t symbols(const CharText& text, uint32_t pos, uint32_t end, uint32_t excluded,
                        Tail tail) {
  const uint32_t first = text.code(pos) == ' ' ? pos + 1 : pos;
  uint32_t stop = run_not_of(text, first, end, excluded);
  if (stop == first) return pos;
  const auto in_tail = [&](uint32_t i) {
    return is_newline(text.code(i)) || (tail != Tail::newlines && text.code(i) == '/');
  };
  if (tail == Tail::none) return stop;
  if (tail == Tail::one_newline_or_slash) return stop < end && in_tail(stop) ? stop + 1 : stop;
  while (stop < end && in_tail(stop)) ++stop;
  return stop;
}

/// `\s*[\r\n]+|\s+(?!\S)|\s+`, or without the first. Remembers the run of white space it is in, so
/// that a run is walked once, however many matches it is cut into.
class WhiteSpace {
 public:
  uint32_t match(const CharText& text, uint32_t pos, uint32_t end, bool newlines_first) {
    if (!text.is(pos, kSpace)) return pos;
    find_run(text, pos, end);
    if (newlines_first && after_newline_ > pos) return after_newline_;
    return run_end_ < end && run_end_ - pos > 1 ? run_end_ - 1 : run_end_;
  }

  /// `\s*[\r\n]+`, then runs of 512, 256, … 4, 1–2 white spaces not followed by anything else, then
  /// a single one.
  uint32_t match_cascade(const CharText& text, uint32_t pos, uint32_t end) {
    if (!text.is(pos, kSpace)) return pos;
    find_run(text, pos, end);
    if (after_newline_ > pos) return after_newline_;
    const uint32_t left = run_end_ - pos;
    const auto fits = [&](uint32_t n) { return n < left || (n == left && run_end_ == end); };
    for (const uint32_t n : {512u, 256u, 128u, 64u, 32u, 16u, 8u, 4u, 2u}) {
      if (fits(n)) return pos + n;
    }
    return pos + 1;
  }

 private:
  void find_run(const CharText& text, uint32_t pos, uint32_t end) {
    if (pos < run_end_) return;
    run_end_ = run_of(text, pos, end, kSpace);
    after_newline_ = run_end_;
    while (after_newline_ > pos && !is_newline(text.code(after_newline_ - 1))) --after_newline_;
  }

  uint32_t run_end_ = 0;
  uint32_t after_newline_ =
      0;  ///< one past the last newline of the run; its start if there is none
};

/// GPT-2.
struct Gpt2 {
  WhiteSpace space;
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) {
    if (const uint32_t stop = contraction(text, pos, end, false); stop > pos) return stop;
    const uint32_t first = text.code(pos) == ' ' ? pos + 1 : pos;
    for (const uint32_t classes : {uint32_t{kLetter}, uint32_t{kNumber}}) {
      if (const uint32_t stop = run_of(text, first, end, classes); stop > first) return stop;
    }
    const uint32_t stop = symbols(text, pos, end, kSpace | kLetter | kNumber, Tail::none);
    return stop > pos ? stop : space.match(text, pos, end, false);
  }
};

/// The variants of the expression of cl100k (GPT-4), which Llama 3, Qwen and many others use.
struct Cl100kRules {
  bool contractions = true;
  uint32_t word = kLetter;
  uint32_t digits = 3;  ///< most in one match
  Tail tail = Tail::newlines;
  bool spaced_words =
      false;             ///< single spaces between letters do not end a word; marks follow letters
  bool cascade = false;  ///< WhiteSpace::match_cascade
};

inline bool is_lead(const CharText& text, uint32_t pos) {
  return !is_newline(text.code(pos)) && !text.is(pos, kLetter | kNumber);
}

/// `\p{L}\p{M}*(?: ?\p{L}\p{M}*)*`
inline uint32_t spaced_words(const CharText& text, uint32_t pos, uint32_t end) {
  uint32_t stop = pos;
  for (uint32_t next = pos; next < end && text.is(next, kLetter);) {
    stop = run_of(text, next + 1, end, kMark);
    next = stop < end && text.code(stop) == ' ' ? stop + 1 : stop;
  }
  return stop;
}

template <Cl100kRules R>
struct Cl100k {
  WhiteSpace space;
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) {
    if constexpr (R.contractions) {
      if (const uint32_t stop = contraction(text, pos, end, true); stop > pos) return stop;
    }
    const auto words = [&](uint32_t from) {
      return R.spaced_words ? spaced_words(text, from, end) : run_of(text, from, end, R.word);
    };
    if (is_lead(text, pos) && pos + 1 < end) {
      if (const uint32_t stop = words(pos + 1); stop > pos + 1) return stop;
    }
    if (const uint32_t stop = words(pos); stop > pos) return stop;
    if (const uint32_t stop = run_of(text, pos, end, kNumber, R.digits); stop > pos) return stop;
    constexpr uint32_t kExcluded = kSpace | kNumber | (R.spaced_words ? kLetter : R.word);
    if (const uint32_t stop = symbols(text, pos, end, kExcluded, R.tail); stop > pos) return stop;
    return R.cascade ? space.match_cascade(text, pos, end) : space.match(text, pos, end, true);
  }
};

/// Script Han of Unicode 15.
bool is_han(char32_t code);

/// The variants of the expression of o200k (GPT-4o), which cuts words at changes of case.
struct O200kRules {
  bool contractions = true;
  uint32_t digits = 3;
  Tail tail = Tail::newlines_and_slashes;
  bool han_apart = false;  ///< runs of Han are words of their own (Kimi)
};

template <O200kRules R>
struct O200k {
  WhiteSpace space;

  static constexpr uint32_t kUpper = kLu | kLt | kLm | kLo | kMark;
  static constexpr uint32_t kLower = kLl | kLm | kLo | kMark;

  static bool in(const CharText& text, uint32_t pos, uint32_t classes) {
    return text.is(pos, classes) && !(R.han_apart && is_han(text.code(pos)));
  }
  static uint32_t run(const CharText& text, uint32_t pos, uint32_t end, uint32_t classes) {
    while (pos < end && in(text, pos, classes)) ++pos;
    return pos;
  }

  /// `upper*lower+`: the classes overlap, so that where no lower follows the run of upper gives
  /// back up to its last character that is also lower.
  static uint32_t lower_word(const CharText& text, uint32_t pos, uint32_t end) {
    const uint32_t upper_end = run(text, pos, end, kUpper);
    if (upper_end < end && in(text, upper_end, kLower)) return run(text, upper_end, end, kLower);
    uint32_t stop = upper_end;
    while (stop > pos && !text.is(stop - 1, kLower)) --stop;
    return stop;
  }
  /// `upper+lower*`
  static uint32_t upper_word(const CharText& text, uint32_t pos, uint32_t end) {
    const uint32_t upper_end = run(text, pos, end, kUpper);
    return upper_end == pos ? pos : run(text, upper_end, end, kLower);
  }

  static uint32_t word(const CharText& text, uint32_t pos, uint32_t end) {
    const bool lead = is_lead(text, pos) && pos + 1 < end;
    for (const auto part : {lower_word, upper_word}) {
      if (lead) {
        if (const uint32_t stop = part(text, pos + 1, end); stop > pos + 1) return stop;
      }
      if (const uint32_t stop = part(text, pos, end); stop > pos) return stop;
    }
    return pos;
  }

  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) {
    if constexpr (R.han_apart) {
      uint32_t stop = pos;
      while (stop < end && is_han(text.code(stop))) ++stop;
      if (stop > pos) return stop;
    }
    if (const uint32_t stop = word(text, pos, end); stop > pos) {
      return R.contractions && stop < end ? contraction(text, stop, end, true) : stop;
    }
    if (const uint32_t stop = run_of(text, pos, end, kNumber, R.digits); stop > pos) return stop;
    if (const uint32_t stop = symbols(text, pos, end, kSpace | kLetter | kNumber, R.tail);
        stop > pos) {
      return stop;
    }
    return space.match(text, pos, end, true);
  }
};

/// The last expression of DeepSeek-V3; `kNewlinesApart`: newlines are neither a tail of symbols nor
/// taken together (Spark).
template <bool kNewlinesApart>
struct DeepSeek {
  WhiteSpace space;
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) {
    const char32_t c = text.code(pos);
    if (is_ascii_punctuation(c)) {
      uint32_t stop = pos + 1;
      while (stop < end && is_ascii_letter(text.code(stop))) ++stop;
      if (stop > pos + 1) return stop;
    }
    constexpr uint32_t kWord = kLetter | kMark;
    if (!is_newline(c) && !text.is(pos, kLetter | kPunctuation | kSymbol) && pos + 1 < end) {
      if (const uint32_t stop = run_of(text, pos + 1, end, kWord); stop > pos + 1) return stop;
    }
    if (const uint32_t stop = run_of(text, pos, end, kWord); stop > pos) return stop;
    const uint32_t first = c == ' ' ? pos + 1 : pos;
    if (uint32_t stop = run_of(text, first, end, kPunctuation | kSymbol); stop > first) {
      while (!kNewlinesApart && stop < end && is_newline(text.code(stop))) ++stop;
      return stop;
    }
    if (kNewlinesApart && is_newline(c)) return pos + 1;
    return space.match(text, pos, end, !kNewlinesApart);
  }
};

/// `\p{…}{1,kMost}`
template <uint32_t kClasses, uint32_t kMost = UINT32_MAX>
struct ClassRun {
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) const {
    return run_of(text, pos, end, kClasses, kMost);
  }
};

/// `[…]+`, … being the characters for which kIs holds.
template <bool (*kIs)(const CharText&, uint32_t)>
struct Run {
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) const {
    while (pos < end && kIs(text, pos)) ++pos;
    return pos;
  }
};

/// `[…]`
template <bool (*kIs)(const CharText&, uint32_t)>
struct One {
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t) const {
    return kIs(text, pos) ? pos + 1 : pos;
  }
};

/// `\s?[…]+`, or with kSpaceOnly ` ?[…]+`.
template <bool (*kIs)(const CharText&, uint32_t), bool kSpaceOnly = false>
struct SpacedRun {
  uint32_t operator()(const CharText& text, uint32_t pos, uint32_t end) const {
    const bool space = kSpaceOnly ? text.code(pos) == ' ' : text.is(pos, kSpace);
    const uint32_t first = space ? pos + 1 : pos;
    uint32_t stop = first;
    while (stop < end && kIs(text, stop)) ++stop;
    if (stop > first) return stop;
    // A white space that is itself in the set.
    return kIs(text, pos) ? pos + 1 : pos;
  }
};

}  // namespace infer::split
