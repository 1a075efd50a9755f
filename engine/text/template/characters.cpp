#include "engine/text/template/characters.h"

#include <utf8proc.h>

#include <algorithm>

#include "engine/text/unicode.h"

namespace infer::jinja {
namespace {

struct Special {
  char32_t code;
  std::u32string_view upper;
  std::u32string_view title;
};

/// Characters whose upper case is several (Unicode's SpecialCasing.txt, Latin script).
constexpr Special kSpecial[] = {
    {0xdf, U"SS", U"Ss"},
    {0x149, U"\u02bcN", U"\u02bcN"},
    {0x1f0, U"J\u030c", U"J\u030c"},
    {0x1e96, U"H\u0331", U"H\u0331"},
    {0x1e97, U"T\u0308", U"T\u0308"},
    {0x1e98, U"W\u030a", U"W\u030a"},
    {0x1e99, U"Y\u030a", U"Y\u030a"},
    {0x1e9a, U"A\u02be", U"A\u02be"},
    {0xfb00, U"FF", U"Ff"},
    {0xfb01, U"FI", U"Fi"},
    {0xfb02, U"FL", U"Fl"},
    {0xfb03, U"FFI", U"Ffi"},
    {0xfb04, U"FFL", U"Ffl"},
    {0xfb05, U"ST", U"St"},
    {0xfb06, U"ST", U"St"},
};

const Special* special(char32_t code) {
  const auto* at = std::ranges::find(kSpecial, code, &Special::code);
  return at == std::end(kSpecial) ? nullptr : at;
}

bool cased(char32_t code) {
  // Ordinal indicators have case though they are letters without one.
  return (char_class(code) & (kLu | kLl | kLt)) != 0 || code == 0xaa || code == 0xba;
}

bool lower_case(char32_t code) {
  return (char_class(code) & kLl) != 0 || code == 0xaa || code == 0xba;
}

void add_title(std::u32string& out, char32_t code) {
  if (const Special* s = special(code)) {
    out += s->title;
  } else {
    out += static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code)));
  }
}

/// A sigma that ends a word has a form of its own.
bool final_sigma(std::u32string_view text, size_t at) {
  const auto ignorable = [](char32_t c) {
    return (char_class(c) & (kMark | kLm | kControl)) != 0 || c == '\'' || c == '.' || c == ':' ||
           c == 0xb7 || c == 0x2019;
  };
  size_t before = at;
  while (before > 0 && ignorable(text[before - 1])) --before;
  if (before == 0 || !cased(text[before - 1])) return false;
  size_t after = at + 1;
  while (after < text.size() && ignorable(text[after])) ++after;
  return after == text.size() || !cased(text[after]);
}

template <typename Test>
bool all(std::string_view text, Test test) {
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = decode_utf8(text, pos);
    if (!test(c.code)) return false;
    pos += c.size;
  }
  return !text.empty();
}

/// Superscripts and the like: digits that are not decimal.
bool digit(char32_t code) {
  if ((char_class(code) & kNd) != 0) return true;
  return code == 0xb2 || code == 0xb3 || code == 0xb9 || code == 0x2070 ||
         (code >= 0x2074 && code <= 0x2079) || (code >= 0x2080 && code <= 0x2089) ||
         (code >= 0x2460 && code <= 0x2468) || (code >= 0x2474 && code <= 0x247c) ||
         (code >= 0x2488 && code <= 0x2490);
}

}  // namespace

void add_upper(std::u32string& out, char32_t code) {
  if (const Special* s = special(code)) {
    out += s->upper;
  } else {
    out += static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code)));
  }
}

void add_lower(std::u32string& out, std::u32string_view text, size_t at) {
  const char32_t code = text[at];
  if (code == 0x130) {
    out += U"i\u0307";
  } else if (code == 0x3a3) {
    out += final_sigma(text, at) ? char32_t{0x3c2} : char32_t{0x3c3};
  } else {
    out += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
  }
}

bool is_space(char32_t code) {
  return (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x20) || code == 0x85 ||
         code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
         code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool is_line_end(char32_t code) {
  return (code >= 10 && code <= 13) || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

bool is_printable(char32_t code) {
  if (code < 0x7f) return code >= 0x20;
  const uint32_t classes = char_class(code);
  return (classes & ~uint32_t{kSpace}) != 0 && (classes & kControl) == 0 && !is_space(code);
}

size_t skip_spaces(std::string_view text, size_t pos) {
  while (pos < text.size()) {
    const Utf8Char c = decode_utf8(text, pos);
    if (!is_space(c.code)) break;
    pos += c.size;
  }
  return pos;
}

size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (text[at] & 0xc0) == 0x80) --at;
  return at;
}

std::string_view strip_right(std::string_view text) {
  while (!text.empty()) {
    const size_t at = last_character(text);
    if (!is_space(decode_utf8(text, at).code)) break;
    text = text.substr(0, at);
  }
  return text;
}

size_t byte_offset(std::string_view text, int64_t index) {
  size_t pos = 0;
  while (pos < text.size() && index > 0) {
    ++pos;
    while (pos < text.size() && (text[pos] & 0xc0) == 0x80) ++pos;
    --index;
  }
  return pos;
}

int64_t count_code_points(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; });
}

std::u32string decode(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Char c = decode_utf8(text, pos);
    out += c.code;
    pos += c.size;
  }
  return out;
}

std::string encode(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t code : text) append_utf8(out, code);
  return out;
}

std::string upper(std::string_view text) {
  std::u32string out;
  for (const char32_t code : decode(text)) add_upper(out, code);
  return encode(out);
}

std::string lower(std::string_view text) {
  const std::u32string in = decode(text);
  std::u32string out;
  for (size_t i = 0; i < in.size(); ++i) add_lower(out, in, i);
  return encode(out);
}

std::string casefold(std::string_view text) {
  constexpr utf8proc_ssize_t kMost = 8;
  std::u32string out;
  for (const char32_t code : decode(text)) {
    utf8proc_int32_t folded[kMost];
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(code), folded, kMost, UTF8PROC_CASEFOLD, &boundary);
    if (count < 0 || count > kMost) {
      out += code;
      continue;
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) out += static_cast<char32_t>(folded[i]);
  }
  return encode(out);
}

std::string title(std::string_view text) {
  const std::u32string in = decode(text);
  std::u32string out;
  bool within = false;
  for (size_t i = 0; i < in.size(); ++i) {
    if (within) {
      add_lower(out, in, i);
    } else {
      add_title(out, in[i]);
    }
    within = cased(in[i]);
  }
  return encode(out);
}

std::string capitalize(std::string_view text) {
  const std::u32string in = decode(text);
  std::u32string out;
  for (size_t i = 0; i < in.size(); ++i) {
    if (i == 0) {
      add_title(out, in[i]);
    } else {
      add_lower(out, in, i);
    }
  }
  return encode(out);
}

std::string swapcase(std::string_view text) {
  const std::u32string in = decode(text);
  std::u32string out;
  for (size_t i = 0; i < in.size(); ++i) {
    if ((char_class(in[i]) & kLu) != 0) {
      add_lower(out, in, i);
    } else if (lower_case(in[i])) {
      add_upper(out, in[i]);
    } else {
      out += in[i];
    }
  }
  return encode(out);
}

bool is_alpha(std::string_view text) {
  return all(text, [](char32_t c) { return (char_class(c) & kLetter) != 0; });
}

bool is_alnum(std::string_view text) {
  return all(text, [](char32_t c) { return (char_class(c) & (kLetter | kNumber)) != 0; });
}

bool is_digit(std::string_view text) { return all(text, digit); }

bool is_decimal(std::string_view text) {
  return all(text, [](char32_t c) { return (char_class(c) & kNd) != 0; });
}

bool is_numeric(std::string_view text) {
  return all(text, [](char32_t c) { return (char_class(c) & kNumber) != 0; });
}

bool is_all_space(std::string_view text) { return all(text, is_space); }

bool is_upper(std::string_view text) {
  bool any = false;
  for (const char32_t c : decode(text)) {
    if (lower_case(c) || (char_class(c) & kLt) != 0) return false;
    any = any || (char_class(c) & kLu) != 0;
  }
  return any;
}

bool is_lower(std::string_view text) {
  bool any = false;
  for (const char32_t c : decode(text)) {
    if ((char_class(c) & (kLu | kLt)) != 0) return false;
    any = any || lower_case(c);
  }
  return any;
}

bool is_title(std::string_view text) {
  bool any = false;
  bool within = false;
  for (const char32_t c : decode(text)) {
    const bool capital = (char_class(c) & (kLu | kLt)) != 0;
    if (capital ? within : lower_case(c) && !within) return false;
    within = cased(c);
    any = any || within;
  }
  return any;
}

bool is_word(char32_t code) { return code == '_' || (char_class(code) & (kLetter | kNumber)) != 0; }

bool is_identifier(std::string_view text) {
  const std::u32string in = decode(text);
  if (in.empty() || (in[0] != '_' && (char_class(in[0]) & kLetter) == 0)) return false;
  return std::ranges::all_of(
      in, [](char32_t c) { return c == '_' || (char_class(c) & (kLetter | kNd | kMark)) != 0; });
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '\'': out += "&#39;"; break;
      case '"': out += "&#34;"; break;
      default: out += c;
    }
  }
  return out;
}

}  // namespace infer::jinja
