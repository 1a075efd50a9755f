// Methods of strings that make strings or judge them.
#include <algorithm>
#include <set>

#include "engine/text/template/characters.h"
#include "engine/text/template/format.h"
#include "engine/text/template/interpreter.h"

namespace infer::jinja {
namespace {

/// A string like the operand: markup stays markup.
Value like(const Call& call, std::string text) {
  return call.in.string(std::move(text), call.self.markup());
}

/// A string argument; markup escapes what is not.
Result<std::string> argument(const Call& call, size_t i) {
  INFER_TRY(std::string text, call.text(i));
  return call.self.markup() && call.has(i) && !call[i].markup() ? escape_html(text) : text;
}

template <std::string (*change)(std::string_view)>
Result<Value> changed(Call& call) {
  call.charge_characters();
  return like(call, change(call.self.text()));
}

template <bool (*judge)(std::string_view)>
Result<Value> judged(Call& call) {
  call.charge_characters();
  return Value::of(judge(call.self.text()));
}

Result<Value> stripped(Call& call, bool left, bool right) {
  const std::string& text = call.self.text();
  if (!call.has(0) || call[0].is(Kind::none)) {
    std::string_view rest = right ? strip_right(text) : std::string_view(text);
    if (left) rest.remove_prefix(skip_spaces(rest, 0));
    return rest.size() == text.size() ? call.self : like(call, std::string(rest));
  }
  call.charge_characters();
  INFER_TRY(const std::string given, argument(call, 0));
  std::set<char32_t> set;
  for (const char32_t c : decode(given)) set.insert(c);
  const auto goes = [&](char32_t c) { return set.contains(c); };
  const std::u32string characters = decode(text);
  size_t begin = 0;
  size_t end = characters.size();
  while (left && begin < end && goes(characters[begin])) ++begin;
  while (right && end > begin && goes(characters[end - 1])) --end;
  if (begin == 0 && end == characters.size()) return call.self;
  return like(call, encode(std::u32string_view(characters).substr(begin, end - begin)));
}

Result<Value> strip(Call& call) { return stripped(call, true, true); }
Result<Value> lstrip(Call& call) { return stripped(call, true, false); }
Result<Value> rstrip(Call& call) { return stripped(call, false, true); }

Result<Value> replace(Call& call) {
  INFER_TRY(const std::string from, argument(call, 0));
  INFER_TRY(const std::string to, argument(call, 1));
  INFER_TRY(int64_t count, call.integer(2, -1));
  const std::string& text = call.self.text();
  std::string out;
  size_t at = 0;
  if (from.empty()) {
    // Between all characters, and at both ends.
    for (size_t pos = 0; count != 0; --count) {
      out += to;
      if (pos == text.size()) {
        at = pos;
        break;
      }
      const size_t next = pos + byte_offset(std::string_view(text).substr(pos), 1);
      out.append(text, pos, next - pos);
      at = pos = next;
      INFER_CHECK_R(call.in.check_size(static_cast<int64_t>(out.size())));
    }
    return like(call, out + text.substr(at));
  }
  for (; count != 0; --count) {
    const size_t found = text.find(from, at);
    if (found == std::string::npos) break;
    out.append(text, at, found - at);
    out += to;
    at = found + from.size();
    INFER_CHECK_R(call.in.check_size(static_cast<int64_t>(out.size())));
  }
  out.append(text, at);
  return like(call, std::move(out));
}

Result<Value> join(Call& call) {
  INFER_TRY(const Elements items, call.in.elements(call[0]));
  std::string out;
  bool first = true;
  for (const Value& item : items) {
    if (!item.is(Kind::string)) {
      return raise("join: expected str instance, {} found", item.type_name());
    }
    if (!first) out += call.self.text();
    first = false;
    out += call.self.markup() && !item.markup() ? escape_html(item.text()) : item.text();
    INFER_CHECK_R(call.in.check_size(static_cast<int64_t>(out.size())));
  }
  return like(call, std::move(out));
}

/// Pads to a width: `before` says how much of the padding stands before the text.
Result<Value> padded(Call& call, int64_t (*before)(int64_t padding, int64_t width)) {
  INFER_TRY(const int64_t width, call.integer(0));
  std::string fill = " ";
  if (call.has(1)) {
    INFER_TRY(fill, call.text(1));
    if (call[1].code_points() != 1) {
      return raise("The fill character must be exactly one character long");
    }
  }
  const int64_t padding = width - call.self.code_points();
  if (padding <= 0) return call.self;
  INFER_CHECK_R(call.in.check_size(padding > Budget::kOutput ? padding : padding * 4));
  const int64_t left = before(padding, width);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += call.self.text();
  for (int64_t i = left; i < padding; ++i) out += fill;
  return like(call, std::move(out));
}

Result<Value> center(Call& call) {
  return padded(call, [](int64_t padding, int64_t width) {
    return padding / 2 + (padding & width & 1);  // CPython's choice where it is odd
  });
}

Result<Value> ljust(Call& call) {
  return padded(call, [](int64_t, int64_t) { return int64_t{0}; });
}

Result<Value> rjust(Call& call) {
  return padded(call, [](int64_t padding, int64_t) { return padding; });
}

Result<Value> zfill(Call& call) {
  INFER_TRY(const int64_t width, call.integer(0));
  const int64_t padding = width - call.self.code_points();
  if (padding <= 0) return call.self;
  INFER_CHECK_R(call.in.check_size(padding));
  std::string out = call.self.text();
  const bool sign = out.starts_with('-') || out.starts_with('+');
  out.insert(sign ? 1 : 0, static_cast<size_t>(padding), '0');
  return like(call, std::move(out));
}

Result<Value> remove_prefix(Call& call) {
  INFER_TRY(const std::string prefix, call.text(0));
  const std::string& text = call.self.text();
  return text.starts_with(prefix) ? like(call, text.substr(prefix.size())) : call.self;
}

Result<Value> remove_suffix(Call& call) {
  INFER_TRY(const std::string suffix, call.text(0));
  const std::string& text = call.self.text();
  return text.ends_with(suffix) ? like(call, text.substr(0, text.size() - suffix.size()))
                                : call.self;
}

Result<Value> expand_tabs(Call& call) {
  INFER_TRY(const int64_t size, call.integer(0, 8));
  INFER_CHECK_R(call.in.check_size(size));
  std::u32string out;
  int64_t column = 0;
  for (const char32_t c : decode(call.self.text())) {
    if (c == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      out.append(static_cast<size_t>(spaces), U' ');
      column += spaces;
    } else {
      out += c;
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    INFER_CHECK_R(call.in.check_size(static_cast<int64_t>(out.size()) * 4));
  }
  return like(call, encode(out));
}

Result<Value> format(Call& call) { return format_braces(call.in, call.self, call.given); }

Result<Value> unsupported(Call&) {
  return fail(StatusCode::unsupported, "this method of strings is not supported in templates");
}

constexpr Builtin kMethods[] = {
    {"upper", "", changed<upper>},
    {"lower", "", changed<lower>},
    {"title", "", changed<title>},
    {"capitalize", "", changed<capitalize>},
    {"swapcase", "", changed<swapcase>},
    {"casefold", "", changed<lower>},
    {"isalpha", "", judged<is_alpha>},
    {"isalnum", "", judged<is_alnum>},
    {"isdigit", "", judged<is_digit>},
    {"isdecimal", "", judged<is_decimal>},
    {"isnumeric", "", judged<is_numeric>},
    {"isspace", "", judged<is_all_space>},
    {"isupper", "", judged<is_upper>},
    {"islower", "", judged<is_lower>},
    {"istitle", "", judged<is_title>},
    {"isascii", "", judged<is_ascii>},
    {"isidentifier", "", judged<is_identifier>},
    {"strip", "/chars?", strip},
    {"lstrip", "/chars?", lstrip},
    {"rstrip", "/chars?", rstrip},
    {"replace", "/old new count?", replace},
    {"join", "/iterable", join},
    {"center", "/width fillchar?", center},
    {"ljust", "/width fillchar?", ljust},
    {"rjust", "/width fillchar?", rjust},
    {"zfill", "/width", zfill},
    {"removeprefix", "/prefix", remove_prefix},
    {"removesuffix", "/suffix", remove_suffix},
    {"expandtabs", "tabsize?", expand_tabs},
    {"format", "*", format},
    {"format_map", "*", unsupported},
    {"encode", "*", unsupported},
    {"translate", "*", unsupported},
    {"maketrans", "*", unsupported},
    {"isprintable", "*", unsupported},
};

}  // namespace

std::span<const Builtin> string_methods() { return kMethods; }

}  // namespace infer::jinja
