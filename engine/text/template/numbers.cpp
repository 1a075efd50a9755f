#include "engine/text/template/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "engine/text/template/characters.h"
#include "engine/text/template/value.h"

namespace infer::jinja {
namespace {

std::string_view stripped(std::string_view text) {
  text = strip_right(text);
  return text.substr(skip_spaces(text, 0));
}

/// Takes single underscores between digits out; false if one stands elsewhere.
bool drop_underscores(std::string& digits) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') {
      out += digits[i];
      continue;
    }
    const auto alnum = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    if (i == 0 || i + 1 == digits.size() || !alnum(digits[i - 1]) || !alnum(digits[i + 1])) {
      return false;
    }
  }
  digits = std::move(out);
  return true;
}

/// Infinity or zero, with the sign, for digits whose number is too large or too small for a double.
double out_of_range_value(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  if (negative) digits.remove_prefix(1);
  const size_t e = std::min(digits.find_first_of("eE"), digits.size());
  const std::string_view mantissa = digits.substr(0, e);
  std::string_view power = digits.substr(std::min(e + 1, digits.size()));
  if (power.starts_with('+')) power.remove_prefix(1);
  int64_t exponent = 0;
  if (std::from_chars(power.data(), power.data() + power.size(), exponent).ec ==
      std::errc::result_out_of_range) {
    exponent = power.starts_with('-') ? INT64_MIN / 2 : INT64_MAX / 2;
  }
  // The place of the first digit that is not zero, counted from the point.
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  const size_t first = mantissa.find_first_of("123456789");
  const auto place = static_cast<int64_t>(point) - static_cast<int64_t>(first);
  const double value = exponent > -place ? std::numeric_limits<double>::infinity() : 0.0;
  return negative ? -value : value;
}

}  // namespace

Result<std::optional<int64_t>> parse_integer(std::string_view text, int base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  text = stripped(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > 2 && text[0] == '0') {
    const char prefix = static_cast<char>(text[1] | 0x20);
    const int means = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
    if (means != 0 && (base == means || base == 0)) {
      base = means;
      text.remove_prefix(text[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) base = 10;
  std::string digits(text);
  if (digits.empty() || digits[0] == '-' || !drop_underscores(digits)) return std::nullopt;
  digits = (negative ? "-" : "") + digits;
  int64_t value = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (ec == std::errc::result_out_of_range) return raise("an integer has more than 64 bits");
  if (ec != std::errc()) return std::nullopt;
  return value;
}

std::optional<double> parse_real(std::string_view text) {
  std::string digits(stripped(text));
  std::string_view rest = digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  constexpr size_t kLongestWord = 8;  // infinity
  const std::string word = rest.size() > kLongestWord ? "" : lower(rest);
  const auto signed_value = [&](double v) { return negative ? -v : v; };
  if (word == "inf" || word == "infinity") {
    return signed_value(std::numeric_limits<double>::infinity());
  }
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  std::string plain(rest);
  if (plain.empty() || !drop_underscores(plain)) return std::nullopt;
  if (plain[0] == '-' || plain[0] == '+') return std::nullopt;
  const std::optional<double> value = decimal_number(plain);
  return value ? std::optional(signed_value(*value)) : std::nullopt;
}

std::optional<double> decimal_number(std::string_view digits) {
  if (digits.starts_with('+')) digits.remove_prefix(1);
  // Not "inf" and "nan", which from_chars takes.
  if (digits.find_first_not_of("0123456789.eE+-") != std::string_view::npos) return std::nullopt;
  const char* const end = digits.data() + digits.size();
  double value = 0;
  const auto [stop, ec] = std::from_chars(digits.data(), end, value);
  if (stop != end || ec == std::errc::invalid_argument) return std::nullopt;
  return ec == std::errc() ? value : out_of_range_value(digits);
}

std::string real_digits(double value, char type, int precision, bool alternate) {
  std::string form = alternate ? "{:#.{}" : "{:.{}";
  form += type;
  form += '}';
  return fmt::format(fmt::runtime(form), value, precision);
}

}  // namespace infer::jinja
