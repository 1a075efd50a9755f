#include "engine/text/template/lexer.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/text/template/characters.h"
#include "engine/text/template/numbers.h"
#include "engine/text/unicode.h"

namespace infer::jinja {
namespace {

/// Line ends become \n; one at the end of the source goes.
std::string normalise(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out += '\n';
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

bool is_digit_of(char c, int base) {
  if (c >= '0' && c <= '9') return c - '0' < base;
  return base == 16 && ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'));
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalise(source)), text_(source_) {}

  Result<std::vector<Token>> run() {
    while (pos_ < text_.size()) {
      INFER_CHECK_R(root());
    }
    add(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  void add(TokenKind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  void advance(size_t to) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<ptrdiff_t>(pos_),
                                         text_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    if (to > pos_) line_starting_ = text_[to - 1] == '\n';
    pos_ = to;
  }

  bool at(size_t pos, std::string_view what) const { return text_.substr(pos).starts_with(what); }

  /// Adds the data up to a tag at `tag` whose sign is `sign`, white space before it stripped.
  void add_data(size_t tag, char sign, bool variable) {
    std::string_view data = text_.substr(pos_, tag - pos_);
    if (sign == '-') {
      data = strip_right(data);
    } else if (sign != '+' && !variable) {
      const size_t line_end = data.rfind('\n');
      const size_t line = line_end == std::string_view::npos ? 0 : line_end + 1;
      if ((line > 0 || line_starting_) && skip_spaces(data, line) == data.size()) {
        data = data.substr(0, line);
      }
    }
    if (!data.empty()) add(TokenKind::data, std::string(data));
  }

  /// The end of a block's or comment's closing mark at `pos`; npos if there is none.
  size_t closing(size_t pos, std::string_view mark, bool trims) const {
    if (at(pos, mark)) {
      pos += mark.size();
      return trims && at(pos, "\n") ? pos + 1 : pos;
    }
    if (at(pos, "-") && at(pos + 1, mark)) return skip_spaces(text_, pos + 1 + mark.size());
    if (trims && at(pos, "+") && at(pos + 1, mark)) return pos + 1 + mark.size();
    return std::string_view::npos;
  }

  char sign_at(size_t pos) const {
    return pos < text_.size() && (text_[pos] == '-' || text_[pos] == '+') ? text_[pos] : '\0';
  }

  /// The end of `{% word %}` at `pos`, npos if that is not what stands there.
  size_t word_tag(size_t pos, std::string_view word, bool trims) const {
    pos += 2;
    if (sign_at(pos) != '\0') ++pos;
    pos = skip_spaces(text_, pos);
    if (!at(pos, word)) return std::string_view::npos;
    pos = skip_spaces(text_, pos + word.size());
    if (trims) return closing(pos, "%}", true);
    if (at(pos, "-%}")) return skip_spaces(text_, pos + 3);
    return at(pos, "%}") ? pos + 2 : std::string_view::npos;
  }

  Status root() {
    size_t tag = pos_;
    while (true) {
      tag = text_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= text_.size()) {
        add(TokenKind::data, std::string(text_.substr(pos_)));
        advance(text_.size());
        return {};
      }
      const char next = text_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
      ++tag;
    }
    const char sign = sign_at(tag + 2);
    const bool variable = text_[tag + 1] == '{';
    add_data(tag, sign, variable);
    if (text_[tag + 1] == '#') return comment(tag, sign);
    if (!variable) {
      const size_t raw_end = word_tag(tag, "raw", false);
      if (raw_end != std::string_view::npos) return raw(raw_end);
    }
    advance(tag);
    add(variable ? TokenKind::variable_begin : TokenKind::block_begin, "");
    const int line = line_;
    advance(tag + 2 + (sign != '\0' ? 1 : 0));
    return tag_content(variable, line);
  }

  Status comment(size_t tag, char sign) {
    advance(tag);
    size_t pos = tag + 2 + (sign != '\0' ? 1 : 0);
    // The first of #}, -#} and +#}: a sign belongs to the mark.
    const size_t mark = text_.find("#}", pos);
    if (mark == std::string_view::npos && pos == text_.size()) {
      advance(pos);  // the reference does not mind what ends with the source
      return {};
    }
    if (mark == std::string_view::npos) {
      return syntax_error(line_, "the comment is not closed by '#}}'").value();
    }
    const bool strips = mark > pos && text_[mark - 1] == '-';
    const bool keeps = mark > pos && text_[mark - 1] == '+';
    size_t end = mark + 2;
    if (strips) {
      end = skip_spaces(text_, end);
    } else if (!keeps && at(end, "\n")) {
      ++end;
    }
    advance(end);
    return {};
  }

  Status raw(size_t begin) {
    const int line = line_;
    advance(begin);
    if (begin == text_.size()) return {};
    for (size_t tag = text_.find("{%", pos_); tag != std::string_view::npos;
         tag = text_.find("{%", tag + 1)) {
      const size_t end = word_tag(tag, "endraw", true);
      if (end == std::string_view::npos) continue;
      add_data(tag, sign_at(tag + 2), false);
      advance(end);
      return {};
    }
    return syntax_error(line, "the raw block is not closed by 'endraw'").value();
  }

  Status tag_content(bool variable, int line) {
    std::string open;  // closers of the brackets that are open
    while (true) {
      const size_t start = skip_spaces(text_, pos_);
      if (open.empty()) {
        // White space before the mark does not matter; the mark itself may strip what follows.
        advance(start);
        const size_t end = closing(pos_, variable ? "}}" : "%}", !variable);
        if (end != std::string_view::npos) {
          add(variable ? TokenKind::variable_end : TokenKind::block_end, "");
          advance(end);
          return {};
        }
      }
      advance(start);
      if (pos_ >= text_.size()) {
        return syntax_error(line, "expected '{}' before the end of the template",
                            variable ? "}}" : "%}")
            .value();
      }
      INFER_CHECK(one_token(open));
    }
  }

  Status one_token(std::string& open) {
    const char c = text_[pos_];
    if (c >= '0' && c <= '9') return number();
    if (c == '\'' || c == '"') return string_literal(c);
    const Utf8Char first = decode_utf8(text_, pos_);
    if (is_word(first.code)) {
      size_t end = pos_;
      while (end < text_.size()) {
        const Utf8Char next = decode_utf8(text_, end);
        if (!is_word(next.code) && (char_class(next.code) & kMark) == 0) break;
        end += next.size;
      }
      const std::string_view name = text_.substr(pos_, end - pos_);
      if (!is_identifier(name)) {
        return syntax_error(line_, "'{}' is not a valid name", shortened(name)).value();
      }
      add(TokenKind::name, std::string(name));
      advance(end);
      return {};
    }
    constexpr std::string_view kPairs[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
    size_t size = 0;
    if (std::ranges::any_of(kPairs, [&](std::string_view pair) { return at(pos_, pair); })) {
      size = 2;
    } else if (kSingle.find(c) != std::string_view::npos) {
      size = 1;
    } else {
      return syntax_error(line_, "unexpected character '{}'",
                          shortened(text_.substr(pos_, first.size)))
          .value();
    }
    if (c == '(' || c == '[' || c == '{') open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty()) return syntax_error(line_, "unexpected '{}'", c).value();
      if (open.back() != c) {
        return syntax_error(line_, "unexpected '{}', expected '{}'", c, open.back()).value();
      }
      open.pop_back();
    }
    add(TokenKind::op, std::string(text_.substr(pos_, size)));
    advance(pos_ + size);
    return {};
  }

  /// Digits with single underscores between them; where they end.
  size_t digits(size_t pos, int base) const {
    if (pos >= text_.size() || !is_digit_of(text_[pos], base)) return pos;
    while (pos < text_.size()) {
      if (is_digit_of(text_[pos], base)) {
        ++pos;
      } else if (text_[pos] == '_' && pos + 1 < text_.size() && is_digit_of(text_[pos + 1], base)) {
        ++pos;
      } else {
        break;
      }
    }
    return pos;
  }

  Status number() {
    const bool after_dot = pos_ > 0 && text_[pos_ - 1] == '.';
    const size_t whole = digits(pos_, 10);
    size_t end = whole;
    if (!after_dot) {
      if (at(end, ".")) end = digits(end + 1, 10);
      if (end == whole + 1) end = whole;  // a dot without digits
      if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
        size_t exponent = end + 1;
        if (at(exponent, "+") || at(exponent, "-")) ++exponent;
        const size_t last = digits(exponent, 10);
        if (last > exponent) end = last;
      }
    }
    if (end > whole) return add_number(end, true, 10);
    constexpr std::pair<std::string_view, int> kPrefixes[] = {{"0b", 2}, {"0o", 8}, {"0x", 16}};
    for (const auto& [prefix, base] : kPrefixes) {
      if (text_[pos_] != '0' || pos_ + 1 >= text_.size()) break;
      if ((text_[pos_ + 1] | 0x20) != prefix[1]) continue;
      const size_t from = at(pos_ + 2, "_") ? pos_ + 3 : pos_ + 2;
      const size_t last = digits(from, base);
      if (last > from) return add_number(last, false, base);
    }
    if (text_[pos_] != '0') return add_number(whole, false, 10);
    // Only zeros may follow a zero.
    end = pos_ + 1;
    while (at(end, "0") || at(end, "_0")) end += at(end, "0") ? 1 : 2;
    return add_number(end, false, 10);
  }

  Status add_number(size_t end, bool real, int base) {
    std::string digits(text_.substr(pos_, end - pos_));
    std::erase(digits, '_');
    add(TokenKind::number, "");
    if (real) {
      tokens_.back().number = Value::of(decimal_number(digits).value_or(0));
    } else {
      const char* first = digits.c_str() + (base == 10 ? 0 : 2);
      int64_t value = 0;
      if (std::from_chars(first, digits.c_str() + digits.size(), value, base).ec != std::errc()) {
        return syntax_error(line_, "the integer {} has more than 64 bits", shortened(digits))
            .value();
      }
      tokens_.back().number = Value::of(value);
    }
    advance(end);
    return {};
  }

  Status string_literal(char quote) {
    size_t end = pos_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) {
      return syntax_error(line_, "the string is not closed by {}", quote).value();
    }
    std::string value;
    INFER_CHECK(unescape(text_.substr(pos_ + 1, end - pos_ - 1), value));
    add(TokenKind::string, std::move(value));
    advance(end + 1);
    return {};
  }

  /// Python's escapes; unknown ones stay as they are.
  Status unescape(std::string_view raw, std::string& out) {
    constexpr std::string_view kNames = "\\'\"abfnrtv";
    constexpr std::string_view kMeanings = "\\'\"\a\b\f\n\r\t\v";
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\' || i + 1 == raw.size()) {
        out += raw[i];
        continue;
      }
      const char kind = raw[++i];
      if (const size_t known = kNames.find(kind); known != std::string_view::npos) {
        out += kMeanings[known];
      } else if (kind == '\n') {
        continue;
      } else if (kind >= '0' && kind <= '7') {
        uint32_t code = 0;
        size_t count = 0;
        while (count < 3 && i + count < raw.size() && is_digit_of(raw[i + count], 8)) {
          code = code * 8 + static_cast<uint32_t>(raw[i + count++] - '0');
        }
        append_utf8(out, code);
        i += count - 1;
      } else if (kind == 'x' || kind == 'u' || kind == 'U') {
        const size_t count = kind == 'x' ? 2 : kind == 'u' ? 4 : 8;
        uint32_t code = 0;
        const char* first = raw.data() + i + 1;
        const char* last = first + std::min(count, raw.size() - i - 1);
        const auto [stop, ec] = std::from_chars(first, last, code, 16);
        if (ec != std::errc() || stop != first + count) {
          return syntax_error(line_, "expected {} hexadecimal digits after \\{}", count, kind)
              .value();
        }
        if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
          return syntax_error(line_, "\\{}{:x} is not a character", kind, code).value();
        }
        append_utf8(out, code);
        i += count;
      } else if (kind == 'N') {
        return syntax_error(line_, "characters by name (\\N) are not supported").value();
      } else {
        out += '\\';
        out += kind;
      }
    }
    return {};
  }

  std::string source_;
  std::string_view text_;
  size_t pos_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::data: return "text";
    case TokenKind::variable_begin: return "'{{'";
    case TokenKind::variable_end: return "'}}'";
    case TokenKind::block_begin: return "'{%'";
    case TokenKind::block_end: return "'%}'";
    case TokenKind::name:
    case TokenKind::op: return "'" + shortened(token.text) + "'";
    case TokenKind::string: return "a string";
    case TokenKind::number: return "a number";
    case TokenKind::end: return "the end of the template";
  }
  return {};
}

Result<std::vector<Token>> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace infer::jinja
