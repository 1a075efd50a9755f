#include "engine/sample/grammar/regex.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "engine/sample/grammar/text_cursor.h"
#include "engine/text/unicode.h"

namespace infer {
namespace {

constexpr uint32_t kNoLimit = UINT32_MAX;
constexpr uint32_t kMaxRepeat = 5000;

/// A class under the two readings of what it contains: every implementation's, and some one's. The
/// complement swaps them.
struct Class {
  CodePointSet sure;
  CodePointSet possible;

  Class complement() const { return {possible.complement(), sure.complement()}; }
};

struct Category {
  std::string_view name;
  std::string_view long_name;
  uint32_t classes;
};
constexpr Category kCategories[] = {{"L", "Letter", kLetter},
                                    {"Lu", "Uppercase_Letter", kLu},
                                    {"Ll", "Lowercase_Letter", kLl},
                                    {"Lt", "Titlecase_Letter", kLt},
                                    {"Lm", "Modifier_Letter", kLm},
                                    {"Lo", "Other_Letter", kLo},
                                    {"M", "Mark", kMark},
                                    {"N", "Number", kNumber},
                                    {"Nd", "Decimal_Number", kNd},
                                    {"P", "Punctuation", kPunctuation},
                                    {"S", "Symbol", kSymbol}};

/// The characters of each category and, last, of words, found once by asking about each character.
const std::vector<CodePointSet>& category_sets() {
  static const std::vector<CodePointSet> kSets = [] {
    std::vector<std::vector<CodePointRange>> ranges(std::size(kCategories) + 1);
    const auto add = [&](size_t i, char32_t c) {
      if (!ranges[i].empty() && ranges[i].back().last + 1 == c) {
        ranges[i].back().last = c;
      } else {
        ranges[i].push_back({c, c});
      }
    };
    for (char32_t c = 0; c <= kMaxCodePoint; ++c) {
      const uint32_t classes = char_class(c);
      for (size_t i = 0; i < std::size(kCategories); ++i) {
        if ((classes & kCategories[i].classes) != 0) add(i, c);
      }
      if ((classes & (kLetter | kNumber | kMark)) != 0 || c == '_') {
        add(std::size(kCategories), c);
      }
    }
    std::vector<CodePointSet> sets;
    for (auto& r : ranges) sets.emplace_back(std::move(r));
    return sets;
  }();
  return kSets;
}

const CodePointSet* category_set(std::string_view name) {
  for (size_t i = 0; i < std::size(kCategories); ++i) {
    if (kCategories[i].name == name || kCategories[i].long_name == name) {
      return &category_sets()[i];
    }
  }
  return nullptr;
}

Class digits() { return {CodePointSet({{'0', '9'}}), *category_set("N")}; }

Class word_characters() {
  return {CodePointSet({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}), category_sets().back()};
}

Class white_space() {
  const CodePointSet sure({{'\t', '\r'},
                           {' ', ' '},
                           {0xa0, 0xa0},
                           {0x1680, 0x1680},
                           {0x2000, 0x200a},
                           {0x2028, 0x2029},
                           {0x202f, 0x202f},
                           {0x205f, 0x205f},
                           {0x3000, 0x3000}});
  return {sure, sure.united(CodePointSet({{0x1c, 0x1f}, {0x85, 0x85}, {0xfeff, 0xfeff}}))};
}

struct Expr {
  enum class Kind : uint8_t { empty, characters, sequence, choice, repeat, begin, end };
  Kind kind = Kind::empty;
  CodePointSet set{};
  uint32_t min = 0, max = 0;
  std::vector<uint32_t> children{};
};

class Parser : TextCursor {
 public:
  Parser(std::string_view text, CharWork& work) : TextCursor(text), work_(work) {}

  Result<CharDfa> compile() {
    INFER_TRY(const uint32_t root, choice(0));
    if (pos_ < text_.size()) return failed("this ) has no matching (");
    emit(root, CharNfa::kStart, CharNfa::kEnd);
    return nfa_.determinise(/*anywhere=*/true, work_);
  }

 private:
  using Kind = Expr::Kind;

  tl::unexpected<Status> failed(std::string_view what) const {
    return fail(StatusCode::invalid_argument, "at byte {}: {}", pos_, what);
  }
  tl::unexpected<Status> refused(std::string_view what) const {
    return fail(StatusCode::unsupported, "at byte {}: {} not supported", pos_, what);
  }
  uint32_t add(Expr e) {
    exprs_.push_back(std::move(e));
    return static_cast<uint32_t>(exprs_.size() - 1);
  }
  uint32_t add_set(CodePointSet set) {
    work_.left -= static_cast<int64_t>(set.ranges().size());
    return add({.kind = Kind::characters, .set = std::move(set)});
  }

  Result<uint32_t> choice(uint32_t depth) {
    if (depth > kMaxPatternNesting) return refused("groups nested so deeply are");
    Expr all{Kind::choice};
    do {
      Expr one{Kind::sequence};
      while (!at_end() && peek() != '|' && peek() != ')') {
        INFER_TRY(const uint32_t term, this->term(depth));
        one.children.push_back(term);
      }
      all.children.push_back(add(std::move(one)));
    } while (take('|'));
    return add(std::move(all));
  }

  Result<uint32_t> term(uint32_t depth) {
    if (take('^')) return add({.kind = Kind::begin});
    if (take('$')) return add({.kind = Kind::end});
    INFER_TRY(uint32_t atom, this->atom(depth));
    return repetition(atom);
  }

  Result<uint32_t> atom(uint32_t depth) {
    if (take('(')) {
      if (take("?:")) return group(depth);
      if (take("?<")) {
        if (peek() == '=' || peek() == '!') return refused("lookbehind is");
        while (!at_end() && peek() != '>') ++pos_;
        if (!take('>')) return failed("a group's name ends with >");
        return group(depth);
      }
      if (peek() == '?') {
        return take("?=") || take("?!") ? refused("lookahead is") : failed("this is not a group");
      }
      return group(depth);
    }
    if (take('.')) {
      return add_set(CodePointSet({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}).complement());
    }
    if (take('[')) return bracket();
    if (take('\\')) {
      if (peek() == 'b' || peek() == 'B') return refused("word boundaries are");
      if ((peek() >= '1' && peek() <= '9') || peek() == 'k') return refused("backreferences are");
      INFER_TRY(const Class c, escape());
      return add_set(c.sure);
    }
    const char c = peek();
    if (c == '*' || c == '+' || c == '?') return failed("there is nothing to repeat");
    if (c == '{' && counted_here()) return failed("there is nothing to repeat");
    INFER_TRY(const char32_t code, character());
    return add_set(CodePointSet({{code, code}}));
  }

  Result<uint32_t> group(uint32_t depth) {
    INFER_TRY(const uint32_t inside, choice(depth + 1));
    if (!take(')')) return failed("the closing ) is missing");
    return inside;
  }

  /// A { that is no repetition stands for itself, as browsers and Python have it.
  bool counted_here() const {
    size_t i = pos_ + 1;
    const size_t digits = i;
    while (i < text_.size() && text_[i] >= '0' && text_[i] <= '9') ++i;
    if (i == digits) return false;
    if (i < text_.size() && text_[i] == ',') ++i;
    while (i < text_.size() && text_[i] >= '0' && text_[i] <= '9') ++i;
    return i < text_.size() && text_[i] == '}';
  }

  Result<uint32_t> number() {
    uint32_t value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++pos_) {
      value = value * 10 + static_cast<uint32_t>(peek() - '0');
      if (value > kMaxRepeat) return refused("more than 5000 repetitions are");
    }
    return value;
  }

  Result<uint32_t> repetition(uint32_t atom) {
    Expr repeat{Kind::repeat};
    if (take('*')) {
      repeat.max = kNoLimit;
    } else if (take('+')) {
      repeat.min = 1;
      repeat.max = kNoLimit;
    } else if (take('?')) {
      repeat.max = 1;
    } else if (peek() == '{' && counted_here()) {
      ++pos_;
      INFER_TRY(repeat.min, number());
      repeat.max = repeat.min;
      if (take(',')) {
        repeat.max = kNoLimit;
        if (peek() != '}') {
          INFER_TRY(repeat.max, number());
        }
      }
      ++pos_;
      if (repeat.min > repeat.max) return failed("the minimum exceeds the maximum");
    } else {
      return atom;
    }
    take('?');
    const char c = peek();
    if (c == '*' || c == '+' || c == '?' || (c == '{' && counted_here())) {
      return failed("there is nothing to repeat");
    }
    repeat.children.push_back(atom);
    return add(std::move(repeat));
  }

  Result<char32_t> character() {
    const Utf8Char c = decode_utf8(text_, pos_);
    if (!c.valid) return failed("this is not UTF-8");
    pos_ += c.size;
    return c.code;
  }

  Result<char32_t> hex(size_t digits) {
    char32_t code = 0;
    for (size_t i = 0; i < digits; ++i, ++pos_) {
      const char c = peek();
      const int lower = c | 0x20;
      const bool letter = lower >= 'a' && lower <= 'f';
      if (at_end() || !((c >= '0' && c <= '9') || letter)) {
        return failed("a hexadecimal digit is expected here");
      }
      code = code * 16 + static_cast<char32_t>(letter ? lower - 'a' + 10 : c - '0');
    }
    return code;
  }

  static Result<Class> just(char32_t code) {
    const CodePointSet set({{code, code}});
    return Class{set, set};
  }

  /// What stands behind a backslash, which has been read.
  Result<Class> escape() {
    if (at_end()) return failed("the pattern ends within an escape");
    INFER_TRY(const char32_t c, character());
    switch (c) {
      case 'd': return digits();
      case 'D': return digits().complement();
      case 'w': return word_characters();
      case 'W': return word_characters().complement();
      case 's': return white_space();
      case 'S': return white_space().complement();
      case 'p':
      case 'P': {
        if (!take('{')) return failed("\\p is followed by {");
        const size_t end = text_.find('}', pos_);
        if (end == std::string_view::npos) return failed("the closing } is missing");
        std::string_view name = text_.substr(pos_, end - pos_);
        for (const std::string_view prefix : {"General_Category=", "gc="}) {
          if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
        }
        const CodePointSet* set = category_set(name);
        if (set == nullptr) return refused("this Unicode property is");
        pos_ = end + 1;
        const Class both{*set, *set};
        return c == 'p' ? both : both.complement();
      }
      case 't': return just('\t');
      case 'n': return just('\n');
      case 'v': return just('\v');
      case 'f': return just('\f');
      case 'r': return just('\r');
      case '0':
        if (peek() >= '0' && peek() <= '9') return refused("octal escapes are");
        return just(0);
      case 'c': {
        const char letter = peek();
        if (((letter | 0x20) < 'a') || ((letter | 0x20) > 'z')) {
          return failed("\\c is followed by a letter");
        }
        ++pos_;
        return just(static_cast<char32_t>(letter & 0x1f));
      }
      case 'x': {
        INFER_TRY(const char32_t code, hex(2));
        return just(code);
      }
      case 'u': return unicode_escape();
      default: break;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
      return failed("this escape is not known");
    }
    return just(c);
  }

  Result<Class> unicode_escape() {
    if (take('{')) {
      const size_t end = text_.find('}', pos_);
      if (end == std::string_view::npos || end == pos_ || end - pos_ > 6) {
        return failed("this is not the code of a character");
      }
      INFER_TRY(const char32_t code, hex(end - pos_));
      ++pos_;
      if (code > kMaxCodePoint) return failed("this is not the code of a character");
      return just(code);
    }
    INFER_TRY(char32_t code, hex(4));
    if (code >= 0xd800 && code <= 0xdbff && take("\\u")) {
      INFER_TRY(const char32_t low, hex(4));
      if (low < 0xdc00 || low > 0xdfff) return failed("half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code >= 0xd800 && code <= 0xdfff) return failed("half of a surrogate pair");
    return just(code);
  }

  /// One member of a bracket: its class and, if it is a single character, that.
  Result<Class> bracket_member(std::optional<char32_t>& single) {
    single.reset();
    if (!take('\\')) {
      INFER_TRY(const char32_t code, character());
      single = code;
      return just(code);
    }
    const char c = peek();
    if (take('b')) {
      single = '\b';
      return just('\b');
    }
    if (c >= '1' && c <= '9') return refused("octal escapes are");
    INFER_TRY(const Class out, escape());
    const auto& ranges = out.sure.ranges();
    const bool named = std::string_view("dDwWsSpP").find(c) != std::string_view::npos;
    if (!named && ranges.size() == 1) single = ranges[0].first;
    return out;
  }

  Result<uint32_t> bracket() {
    const bool negated = take('^');
    Class all;
    std::vector<CodePointRange> ranges;
    while (!take(']')) {
      if (at_end()) return failed("the closing ] is missing");
      std::optional<char32_t> first;
      INFER_TRY(const Class member, bracket_member(first));
      if (peek() == '-' && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']') {
        ++pos_;
        std::optional<char32_t> last;
        INFER_TRY(const Class end, bracket_member(last));
        if (!first || !last) return failed("a range is between two characters");
        if (*last < *first) return failed("the range's end precedes its beginning");
        ranges.push_back({*first, *last});
      } else if (first) {
        ranges.push_back({*first, *first});
      } else {
        work_.left -= static_cast<int64_t>(
            4 * (all.possible.ranges().size() + member.possible.ranges().size()));
        if (work_.left < 0) return refused("so many classes are");
        all.sure = all.sure.united(member.sure);
        all.possible = all.possible.united(member.possible);
      }
    }
    const CodePointSet listed(std::move(ranges));
    all.sure = all.sure.united(listed);
    all.possible = all.possible.united(listed);
    return add_set(negated ? all.complement().sure : all.sure);
  }

  void emit(uint32_t expr, uint32_t from, uint32_t to) {
    if (nfa_.too_large()) return;
    const Expr& e = exprs_[expr];
    switch (e.kind) {
      case Kind::empty: nfa_.empty_move(from, to); break;
      case Kind::characters: nfa_.read(from, e.set, to); break;
      case Kind::begin: nfa_.empty_move(from, to, CharNfa::When::at_begin); break;
      case Kind::end: nfa_.empty_move(from, to, CharNfa::When::at_end); break;
      case Kind::choice:
        for (const uint32_t child : e.children) emit(child, from, to);
        break;
      case Kind::sequence:
        for (const uint32_t child : e.children) {
          const uint32_t next = nfa_.node();
          emit(child, from, next);
          from = next;
        }
        nfa_.empty_move(from, to);
        break;
      case Kind::repeat: emit_repeat(e, from, to); break;
    }
  }

  void emit_repeat(const Expr& e, uint32_t from, uint32_t to) {
    const auto step = [&](uint32_t begin) {
      const uint32_t next = nfa_.node();
      emit(e.children[0], begin, next);
      return next;
    };
    for (uint32_t i = 0; i < e.min && !nfa_.too_large(); ++i) from = step(from);
    if (e.max == kNoLimit) {
      const uint32_t loop = nfa_.node();
      nfa_.empty_move(from, loop);
      nfa_.empty_move(step(loop), loop);
      nfa_.empty_move(loop, to);
      return;
    }
    for (uint32_t i = e.min; i < e.max && !nfa_.too_large(); ++i) {
      nfa_.empty_move(from, to);
      from = step(from);
    }
    nfa_.empty_move(from, to);
  }

  CharWork& work_;
  std::vector<Expr> exprs_;
  CharNfa nfa_;
};

}  // namespace

Result<CharDfa> compile_regex(std::string_view pattern, CharWork& work) {
  if (pattern.size() > kMaxPatternBytes) {
    return fail(StatusCode::unsupported, "a pattern of {} bytes; at most {} are read",
                pattern.size(), kMaxPatternBytes);
  }
  return Parser(pattern, work).compile();
}

}  // namespace infer
