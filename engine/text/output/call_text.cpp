#include "engine/text/output/call_text.h"

#include <algorithm>
#include <cmath>

namespace infer::calls {
namespace {

/// Where the JSON object or array at the front ends; nothing if it does not, or nests too deep.
std::optional<size_t> end_of_brackets(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return std::nullopt;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return std::nullopt;
}

bool is_shallow(std::string_view text) {
  text = trimmed(text);
  return text.empty() || (text[0] != '{' && text[0] != '[') || end_of_brackets(text);
}

bool fits(const Json& value, unsigned types) {
  switch (value.type()) {
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned: return (types & kIntegerType) != 0;
    case Json::value_t::number_float:
      return (types & kNumberType) != 0 ||
             ((types & kIntegerType) != 0 && std::trunc(value.get<double>()) == value);
    case Json::value_t::boolean: return (types & kBooleanType) != 0;
    case Json::value_t::null: return (types & kNullType) != 0;
    case Json::value_t::object: return (types & kObjectType) != 0;
    case Json::value_t::array: return (types & kArrayType) != 0;
    default: return false;
  }
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

std::optional<std::string_view> take_until(std::string_view& text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + mark.size());
  return before;
}

bool take(std::string_view& text, std::string_view mark) {
  const std::string_view rest =
      text.substr(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
  if (!rest.starts_with(mark)) return false;
  text = rest.substr(mark.size());
  return true;
}

std::optional<std::string_view> take_json(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
  if (text.empty() || (text[0] != '{' && text[0] != '[')) return std::nullopt;
  const std::optional<size_t> end = end_of_brackets(text);
  if (!end) return std::nullopt;
  const std::string_view json = text.substr(0, *end);
  text.remove_prefix(*end);
  return json;
}

std::optional<Json> read_json(std::string_view text) {
  if (!is_shallow(text)) return std::nullopt;
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

std::string write_json(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json typed_value(std::string_view text, unsigned types) {
  if (types == kStringType) return Json(text);
  std::optional<Json> value = read_json(text);
  if (types != kAnyType) {
    const bool may_be_text = (types & kStringType) != 0;
    // A number is also a good text, and the model cannot say which one it means.
    if (may_be_text) types &= kNullType | kArrayType | kObjectType;
    std::optional<Json> typed = value ? value : read_literal(text);
    if (typed && fits(*typed, types)) return *std::move(typed);
    if (may_be_text) return Json(text);
  }
  return value && !value->is_string() ? *std::move(value) : Json(text);
}

Calls all_read(std::vector<ToolCall> calls, std::string_view rest) {
  if (!trimmed(rest).empty() || calls.empty()) return std::nullopt;
  return calls;
}

bool is_json(std::string_view text) { return is_shallow(text) && Json::accept(text); }

}  // namespace infer::calls
