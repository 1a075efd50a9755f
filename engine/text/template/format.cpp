#include "engine/text/template/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "engine/core/ascii.h"
#include "engine/text/template/characters.h"
#include "engine/text/template/numbers.h"
#include "engine/text/template/repr.h"
#include "engine/text/unicode.h"

namespace infer::jinja {
namespace {

constexpr int64_t kMaxPrecision = 1000;  // digits; a double has no more than 767 that differ from 0

struct Spec {
  std::u32string fill = U" ";
  char align = 0;  // < > ^ =
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  int64_t width = 0;
  char group = 0;
  int64_t precision = -1;
  char type = 0;
};

tl::unexpected<Status> too_wide() { return raise("a width in a format is too large"); }

Result<int64_t> small_number(std::string_view text, size_t& at) {
  int64_t value = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + (text[at++] - '0');
    if (value > Budget::kOutput) return too_wide();
  }
  return value;
}

/// The digits of a real number ≥ 0 by one of e f g, as C's printf.
std::string printed(double value, char type, int64_t precision, bool alternate) {
  const int64_t digits = std::min(precision < 0 ? 6 : precision, kMaxPrecision);
  return real_digits(value, type, static_cast<int>(digits), alternate);
}

/// The digits of a number without its sign.
std::string digits_in_base(int64_t value, int base) {
  const auto bits = static_cast<uint64_t>(value);
  char buffer[70];
  const auto end =
      std::to_chars(buffer, buffer + sizeof(buffer), value < 0 ? 0 - bits : bits, base);
  return {buffer, static_cast<size_t>(end.ptr - buffer)};
}

std::string grouped(const std::string& digits, char separator, size_t every) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::string upper_ascii(std::string text) {
  for (char& c : text) c = ascii_upper(c);
  return text;
}

/// Puts sign and prefix, digits and the filling together.
Result<std::string> aligned(Interpreter& in, const Spec& spec, std::string_view prefix,
                            std::string_view body, char natural) {
  const int64_t size = count_code_points(prefix) + count_code_points(body);
  const int64_t missing = std::max<int64_t>(spec.width - size, 0);
  const std::string unit = encode(spec.fill);
  const char align = spec.align != 0 ? spec.align : natural;
  const int64_t before = align == '^' ? missing / 2 : align == '<' || align == '=' ? 0 : missing;
  const int64_t within = align == '=' ? missing : 0;
  std::string out;
  INFER_CHECK_R(in.append_times(out, unit, before));
  out += prefix;
  INFER_CHECK_R(in.append_times(out, unit, within));
  INFER_CHECK_R(in.append(out, body));
  INFER_CHECK_R(in.append_times(out, unit, missing - before - within));
  return out;
}

/// The first characters of a text, all of them if `count` is negative.
std::string_view first_characters(Interpreter& in, std::string_view text, int64_t count) {
  if (count < 0) return text;
  const size_t size = byte_offset(text, count);
  in.budget().work(size, Budget::kLoop);
  return text.substr(0, size);
}

Result<std::string> format_integer(Interpreter& in, int64_t value, Spec spec) {
  std::string digits;
  std::string prefix = value < 0 ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  const auto magnitude = [&](int base) { return digits_in_base(value, base); };
  size_t every = 4;
  switch (spec.type) {
    case 'b': digits = magnitude(2); break;
    case 'o': digits = magnitude(8); break;
    case 'x': digits = magnitude(16); break;
    case 'X': digits = upper_ascii(magnitude(16)); break;
    case 'c':
      if (value < 0 || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
        return raise("%c arg not in range(0x110000)");
      }
      append_utf8(digits, static_cast<char32_t>(value));
      return aligned(in, spec, "", digits, '<');
    default: digits = magnitude(10); every = 3;
  }
  if (spec.alternate && every == 4) prefix += std::string("0") + spec.type;
  if (spec.precision >= 0) return raise("precision is not allowed in an integer format");
  if (spec.group != 0) digits = grouped(digits, spec.group, every);
  return aligned(in, spec, prefix, digits, '>');
}

Result<std::string> format_real(Interpreter& in, double value, const Spec& spec) {
  std::string prefix = std::signbit(value) && !std::isnan(value) ? "-"
                       : spec.sign == '-'                        ? ""
                                                                 : std::string(1, spec.sign);
  const double magnitude = std::fabs(value);
  std::string digits;
  const char type = static_cast<char>(spec.type | 0x20);
  if (std::isnan(value) || std::isinf(value)) {
    digits = std::isnan(value) ? "nan" : "inf";
  } else if (spec.type == 0) {
    digits = repr_real(magnitude);
    if (spec.precision >= 0) {
      digits = printed(magnitude, 'g', std::max<int64_t>(spec.precision, 1), spec.alternate);
      if (digits.find_first_of(".en") == std::string::npos) digits += ".0";
    }
  } else if (spec.type == '%') {
    digits = printed(magnitude * 100, 'f', spec.precision, spec.alternate) + "%";
  } else if (type == 'n' || type == 'g') {
    digits = printed(magnitude, 'g', spec.precision == 0 ? 1 : spec.precision, spec.alternate);
  } else {
    digits = printed(magnitude, type, spec.precision, spec.alternate);
  }
  if (spec.type >= 'A' && spec.type <= 'Z') digits = upper_ascii(digits);
  if (spec.group != 0) {
    const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
    digits = grouped(digits.substr(0, whole), spec.group, 3) + digits.substr(whole);
  }
  return aligned(in, spec, prefix, digits, '>');
}

Result<Spec> parse_spec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const auto is_align = [](char32_t c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!text.empty()) {
    const Utf8Char first = decode_utf8(text, 0);
    if (first.size < text.size() && is_align(static_cast<unsigned char>(text[first.size]))) {
      spec.fill = std::u32string(1, first.code);
      spec.align = text[first.size];
      at = first.size + 1u;
    } else if (is_align(first.code)) {
      spec.align = text[0];
      at = 1;
    }
  }
  const auto has = [&](std::string_view any) {
    return at < text.size() && any.find(text[at]) != std::string_view::npos;
  };
  if (has("+- ")) spec.sign = text[at++];
  if (has("#")) {
    spec.alternate = true;
    ++at;
  }
  if (has("0")) {
    spec.zero = true;
    if (spec.align == 0) {
      spec.fill = U"0";
      spec.align = '=';
    }
    ++at;
  }
  INFER_TRY(spec.width, small_number(text, at));
  if (has(",_")) spec.group = text[at++];
  if (has(".")) {
    ++at;
    if (!has("0123456789")) return raise("Format specifier missing precision");
    INFER_TRY(spec.precision, small_number(text, at));
  }
  if (has("bcdeEfFgGnosxX%")) spec.type = text[at++];
  if (at != text.size()) return raise("invalid format specifier '{}'", shortened(text));
  return spec;
}

Result<int64_t> whole_number(const Value& value, char type) {
  if (value.is_integral()) return value.integer();
  if (value.is(Kind::real) && (type == 'd' || type == 'i' || type == 'u')) {
    const double number = std::trunc(value.number());
    if (std::fabs(number) < 9.2e18) return static_cast<int64_t>(number);
    return raise("a number is too large for %{}", type);
  }
  return raise("%{} format: a number is required, not {}", type, value.type_name());
}

/// One conversion of a % format.
Result<std::string> convert(Interpreter& in, const Value& value, Spec spec, bool left, char type) {
  spec.align = left ? '<' : '>';
  if (type == 's' || type == 'r' || type == 'a') {
    if (type == 's' && value.is(Kind::string)) {
      return aligned(in, spec, "", first_characters(in, value.text(), spec.precision), '>');
    }
    INFER_TRY(const std::string text, type == 's' ? in.str(value) : in.repr(value));
    return aligned(in, spec, "", first_characters(in, text, spec.precision), '>');
  }
  if (type == 'c') {
    if (value.is(Kind::string) && value.code_points() == 1) {
      return aligned(in, spec, "", value.text(), '>');
    }
    if (!value.is_integral()) return raise("%c requires int or char");
    spec.type = 'c';
    return format_integer(in, value.integer(), spec);
  }
  if (spec.zero && !left) {
    spec.fill = U"0";
    spec.align = '=';
  }
  if (type == 'd' || type == 'i' || type == 'u' || type == 'x' || type == 'X' || type == 'o') {
    if (value.is(Kind::undefined)) return raise("{}", value.text());
    INFER_TRY(const int64_t number, whole_number(value, type));
    spec.type = type == 'x' || type == 'X' || type == 'o' ? type : 'd';
    const int64_t digits = std::exchange(spec.precision, -1);
    if (digits < 0) return format_integer(in, number, spec);
    std::string text = digits_in_base(number, type == 'o' ? 8 : spec.type == 'd' ? 10 : 16);
    if (type == 'X') text = upper_ascii(std::move(text));
    const int64_t zeros = digits - static_cast<int64_t>(text.size());
    std::string filled;
    INFER_CHECK_R(in.append_times(filled, "0", zeros));
    text = filled + text;
    return aligned(in, spec,
                   number < 0         ? "-"
                   : spec.sign == '-' ? ""
                                      : std::string(1, spec.sign),
                   text, '>');
  }
  if (std::string_view("eEfFgG").find(type) == std::string_view::npos) {
    return raise("unsupported format character '{}'", type);
  }
  if (value.is(Kind::undefined)) return raise("{}", value.text());
  if (!value.is_number()) return raise("must be real number, not {}", value.type_name());
  spec.type = type;
  return format_real(in, value.number(), spec);
}

}  // namespace

Result<std::string> format_spec(Interpreter& in, const Value& value, std::string_view text) {
  if (text.empty()) return in.str(value);
  INFER_TRY(Spec spec, parse_spec(text));
  if (value.is(Kind::string)) {
    if (spec.type != 0 && spec.type != 's') {
      return raise("Unknown format code '{}' for object of type 'str'", spec.type);
    }
    if (spec.align == '=' && !spec.zero) {
      return raise("'=' alignment not allowed in string format specifier");
    }
    if (spec.align == '=') spec.align = '<';
    return aligned(in, spec, "", first_characters(in, value.text(), spec.precision), '<');
  }
  const bool real_type =
      spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos;
  if (value.is_integral() && !real_type) {
    if (spec.type == 's') return raise("Unknown format code 's' for object of type 'int'");
    return format_integer(in, value.integer(), spec);
  }
  if (value.is(Kind::real) || value.is_integral()) {
    if (spec.type != 0 && spec.type != 'n' && !real_type) {
      return raise("Unknown format code '{}' for object of type 'float'", spec.type);
    }
    return format_real(in, value.number(), spec);
  }
  return raise("unsupported format string passed to {}.__format__", value.type_name());
}

Result<Value> format_percent(Interpreter& in, const Value& text, const Value& values) {
  const std::string& format = text.text();
  in.budget().work(format.size(), Budget::kLoop);
  INFER_CHECK_R(in.check_budget());
  std::string out;
  size_t next = 0;
  const bool many = values.is(Kind::tuple);
  const auto take = [&]() -> Result<Value> {
    if (many ? next >= values.items().size() : next > 0) {
      return raise("not enough arguments for format string");
    }
    ++next;
    return many ? values.items()[next - 1] : values;
  };
  bool by_name = false;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%') {
      out += format[i];
      continue;
    }
    if (++i >= format.size()) return raise("incomplete format");
    Value value;
    if (format[i] == '(') {
      if (!values.is(Kind::dict)) return raise("format requires a mapping");
      int open = 1;
      const size_t begin = ++i;
      for (; i < format.size() && open > 0; ++i)
        open += format[i] == '(' ? 1 : format[i] == ')' ? -1 : 0;
      if (open > 0) return raise("incomplete format key");
      const std::string key = format.substr(begin, i - begin - 1);
      const Value* found = values.dict().find(in.budget(), key);
      if (found == nullptr) return raise("key '{}' is not there", shortened(key));
      value = *found;
      by_name = true;
    }
    Spec spec;
    bool left = false;
    for (; i < format.size(); ++i) {
      const char c = format[i];
      if (c == '-') {
        left = true;
      } else if (c == '+') {
        spec.sign = '+';
      } else if (c == ' ') {
        if (spec.sign == '-') spec.sign = ' ';
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c == '0') {
        spec.zero = true;
      } else {
        break;
      }
    }
    const auto number = [&](int64_t& to) -> Status {
      if (i < format.size() && format[i] == '*') {
        ++i;
        INFER_TRY_S(const Value given, take());
        if (!given.is_integral()) return raise("* wants int").value();
        to = given.integer();
        if (to > Budget::kOutput || to < -Budget::kOutput) return too_wide().value();
        return {};
      }
      INFER_TRY_S(to, small_number(format, i));
      return {};
    };
    INFER_CHECK_R(number(spec.width));
    if (spec.width < 0) {
      left = true;
      spec.width = -spec.width;
    }
    if (i < format.size() && format[i] == '.') {
      ++i;
      INFER_CHECK_R(number(spec.precision));
      spec.precision = std::max<int64_t>(spec.precision, 0);
    }
    while (i < format.size() && (format[i] == 'h' || format[i] == 'l' || format[i] == 'L')) ++i;
    if (i >= format.size()) return raise("incomplete format");
    if (format[i] == '%') {
      out += '%';
      continue;
    }
    if (value.is(Kind::missing)) {
      INFER_TRY(value, take());
    }
    if (text.markup() && value.is(Kind::string) && !value.markup()) {
      INFER_TRY(std::string escaped, in.escaped(value.text()));
      value = in.string(std::move(escaped), true);
    }
    in.budget().step();
    INFER_TRY(const std::string part, convert(in, value, spec, left, format[i]));
    INFER_CHECK_R(in.append(out, part));
  }
  const bool unused = many ? next < values.items().size() : next == 0 && !by_name;
  if (unused && !values.is(Kind::dict) && !values.is(Kind::list)) {
    return raise("not all arguments converted during string formatting");
  }
  return in.string(std::move(out), text.markup());
}

}  // namespace infer::jinja
