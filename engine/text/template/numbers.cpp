#include "engine/text/template/numbers.h"

#include <charconv>
#include <limits>
#include <string>

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
  const std::string word = lower(rest);
  const auto signed_value = [&](double v) { return negative ? -v : v; };
  if (word == "inf" || word == "infinity") {
    return signed_value(std::numeric_limits<double>::infinity());
  }
  if (word == "nan") return std::numeric_limits<double>::quiet_NaN();
  std::string plain(rest);
  if (plain.empty() || !drop_underscores(plain)) return std::nullopt;
  if (plain.find_first_not_of("0123456789.eE+-") != std::string::npos) return std::nullopt;
  double value = 0;
  const auto [end, ec] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (end != plain.data() + plain.size() || plain[0] == '-') return std::nullopt;
  if (ec == std::errc::result_out_of_range) value = std::strtod(plain.c_str(), nullptr);
  return signed_value(value);
}

}  // namespace infer::jinja
