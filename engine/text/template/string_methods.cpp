// Methods of strings that make strings or judge them.
#include <algorithm>

#include "engine/text/template/characters.h"
#include "engine/text/template/format.h"
#include "engine/text/template/interpreter.h"
#include "engine/text/template/search.h"
#include "engine/text/unicode.h"

namespace infer::jinja {
namespace {

/// A string like the operand: markup stays markup.
Value like(const Call& call, std::string text) {
  return call.in.string(std::move(text), call.self.markup());
}

/// A string argument; markup escapes what is not.
Result<std::string> argument(const Call& call, size_t i) {
  INFER_TRY(std::string text, call.text(i));
  const bool plain = call.self.markup() && call.has(i) && !call[i].markup();
  return plain ? call.in.escaped(text) : text;
}

/// Charges for taking the operand apart into characters.
Status charge_characters(Call& call) {
  call.in.budget().work(call.text_bytes(), Budget::kCharacter);
  return call.in.check_budget();
}

template <std::string (*change)(std::string_view)>
Result<Value> changed(Call& call) {
  INFER_CHECK_R(charge_characters(call));
  return like(call, change(call.self.text()));
}

template <bool (*judge)(std::string_view)>
Result<Value> judged(Call& call) {
  INFER_CHECK_R(charge_characters(call));
  return Value::of(judge(call.self.text()));
}

Result<Value> stripped(Call& call, bool left, bool right) {
  const std::string_view text = call.self.text();
  std::string_view rest = text;
  if (!call.has(0) || call[0].is(Kind::none)) {
    if (right) rest = strip_right(rest);
    if (left) rest.remove_prefix(skip_spaces(rest, 0));
    call.in.budget().work(text.size() - rest.size(), Budget::kLoop);
  } else {
    INFER_TRY(const std::string given, argument(call, 0));
    INFER_TRY(std::u32string set, call.in.characters(given));
    std::ranges::sort(set);
    // Only what goes is looked at, and one character more.
    const auto goes = [&](char32_t c) {
      call.in.budget().work(Budget::kStep);
      return std::ranges::binary_search(set, c);
    };
    while (left && !rest.empty()) {
      const Utf8Char c = decode_utf8(rest, 0);
      if (!goes(c.code)) break;
      rest.remove_prefix(c.size);
    }
    while (right && !rest.empty()) {
      const size_t last = last_character(rest);
      if (!goes(decode_utf8(rest, last).code)) break;
      rest = rest.substr(0, last);
    }
    INFER_CHECK_R(call.in.check_budget());
  }
  return rest.size() == text.size() ? call.self : like(call, std::string(rest));
}

Result<Value> strip(Call& call) { return stripped(call, true, true); }
Result<Value> lstrip(Call& call) { return stripped(call, true, false); }
Result<Value> rstrip(Call& call) { return stripped(call, false, true); }

Result<Value> replace(Call& call) {
  INFER_TRY(const std::string from, argument(call, 0));
  INFER_TRY(const std::string to, argument(call, 1));
  INFER_TRY(int64_t count, call.integer(2, -1));
  count = std::max<int64_t>(count, -1);  // below zero: all
  Budget& budget = call.in.budget();
  const std::string_view text = call.self.text();
  std::string out;
  size_t at = 0;
  for (; count != 0; --count) {
    budget.step();
    if (from.empty()) {
      // Between all characters, and at both ends.
      INFER_CHECK_R(call.in.append(out, to));
      if (at == text.size()) break;
      const size_t size = byte_offset(text.substr(at), 1);
      out += text.substr(at, size);
      at += size;
      continue;
    }
    const size_t found = find_text(budget, text, from, at);
    INFER_CHECK_R(call.in.check_budget());
    if (found == std::string_view::npos) break;
    INFER_CHECK_R(call.in.append(out, text.substr(at, found - at)));
    INFER_CHECK_R(call.in.append(out, to));
    at = found + from.size();
  }
  INFER_CHECK_R(call.in.append(out, text.substr(at)));
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
    if (!std::exchange(first, false)) INFER_CHECK_R(call.in.append(out, call.self.text()));
    if (call.self.markup() && !item.markup()) {
      INFER_TRY(const std::string escaped, call.in.escaped(item.text()));
      INFER_CHECK_R(call.in.append(out, escaped));
    } else {
      INFER_CHECK_R(call.in.append(out, item.text()));
    }
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
  if (width <= call.self.code_points()) return call.self;
  INFER_CHECK_R(call.in.check_size(width));
  const int64_t padding = width - call.self.code_points();
  const int64_t left = before(padding, width);
  std::string out;
  INFER_CHECK_R(call.in.append_times(out, fill, left));
  INFER_CHECK_R(call.in.append(out, call.self.text()));
  INFER_CHECK_R(call.in.append_times(out, fill, padding - left));
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
  if (width <= call.self.code_points()) return call.self;
  INFER_CHECK_R(call.in.check_size(width));
  const int64_t padding = width - call.self.code_points();
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
  INFER_CHECK_R(charge_characters(call));
  std::string out;
  int64_t column = 0;
  const std::string_view text = call.self.text();
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = byte_offset(text.substr(at), 1);
    const std::string_view c = text.substr(at, bytes);
    at += bytes;
    if (c == "\t") {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      INFER_CHECK_R(call.in.append_times(out, " ", spaces));
      column += spaces;
    } else {
      out += c;
      column = c == "\n" || c == "\r" ? 0 : column + 1;
    }
  }
  return like(call, std::move(out));
}

Result<Value> format(Call& call) { return format_braces(call.in, call.self, call.given); }

Result<Value> unsupported(Call&) {
  return fail(StatusCode::unsupported, "this method of strings is not supported in templates");
}

constexpr Builtin kStringMethods[] = {
    {"upper", "", changed<upper>},
    {"lower", "", changed<lower>},
    {"title", "", changed<title>},
    {"capitalize", "", changed<capitalize>},
    {"swapcase", "", changed<swapcase>},
    {"casefold", "", changed<casefold>},
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

std::span<const Builtin> string_methods() { return kStringMethods; }

}  // namespace infer::jinja
