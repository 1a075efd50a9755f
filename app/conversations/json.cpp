#include "conversations/json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "conversations/limits.h"
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

}  // namespace

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
