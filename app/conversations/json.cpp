#include "conversations/json.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "conversations/limits.h"
#include "conversations/utf8.h"
#include "hub/bounded_json.h"

namespace infer::conversations {
namespace {

using Json = nlohmann::json;

std::string dumped(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// The code unit of an escape with four digits at `at`; −1 if there is none.
int32_t escaped_unit(std::string_view text, size_t at) {
  constexpr size_t kDigits = 4;
  if (text.substr(at, 2) != "\\u" || text.size() < at + 2 + kDigits) return -1;
  const char* const first = text.data() + at + 2;
  uint16_t unit = 0;
  const auto read = std::from_chars(first, first + kDigits, unit, 16);
  return read.ec == std::errc() && read.ptr == first + kDigits ? unit : -1;
}
bool is_first_half(int32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_second_half(int32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

}  // namespace

std::string repaired_json(std::string_view text) {
  constexpr size_t kEscape = 6;
  std::string repaired = valid_utf8(text);
  for (size_t at = repaired.find('\\'); at != std::string::npos; at = repaired.find('\\', at)) {
    const int32_t unit = escaped_unit(repaired, at);
    if (unit < 0) {
      at += 2;  // another escape: what follows belongs to it
    } else if (is_first_half(unit) && is_second_half(escaped_unit(repaired, at + kEscape))) {
      at += 2 * kEscape;
    } else {
      if (is_first_half(unit) || is_second_half(unit)) repaired.replace(at + 2, 4, "fffd");
      at += kEscape;
    }
  }
  return repaired;
}

std::optional<std::string> compact_object(std::string_view text) {
  if (text == "{}") return "{}";
  const std::optional<Json> value = hub::parse_bounded<Json>(text, kMaxJsonDepth);
  if (!value || !value->is_object()) return std::nullopt;
  return dumped(*value);
}

Status not_an_object(std::string_view where, std::string_view field) {
  return {StatusCode::invalid_argument,
          fmt::format("{}: {}: expected a JSON object of at most {} levels", where, field,
                      kMaxJsonDepth)};
}

std::string tool_calls_text(const std::vector<ToolCall>& calls) {
  Json list = Json::array();
  for (const ToolCall& call : calls) {
    list.push_back(Json{{"id", call.id},
                        {"name", call.name},
                        {"arguments", call.arguments},
                        {"result", call.result}});
  }
  return dumped(list);
}

std::vector<ToolCall> tool_calls_of(std::string_view text) {
  std::vector<ToolCall> calls;
  if (text == "[]") return calls;
  const std::optional<Json> list = hub::parse_bounded<Json>(text, 3);
  if (!list || !list->is_array()) return calls;
  for (const Json& call : *list) {
    if (!call.is_object()) continue;
    calls.push_back({text_of(call, "id"), text_of(call, "name"), text_of(call, "arguments"),
                     text_of(call, "result")});
  }
  return calls;
}

}  // namespace infer::conversations
