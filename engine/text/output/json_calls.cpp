#include <algorithm>

#include "engine/text/output/call_text.h"

namespace infer::calls {
namespace {

/// The first of the members that the object has.
const Json* member(const Json& object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const auto found = object.find(name); found != object.end()) return &*found;
  }
  return nullptr;
}

bool add_call(const Json& json, std::vector<ToolCall>& calls) {
  if (json.is_array()) {
    return std::ranges::all_of(json, [&](const Json& item) { return add_call(item, calls); });
  }
  if (!json.is_object()) return false;
  if (const Json* inner = member(json, {"function"}); inner != nullptr && inner->is_object()) {
    return add_call(*inner, calls);
  }
  const Json* name = member(json, {"name", "tool_name"});
  const Json* arguments = member(json, {"arguments", "parameters"});
  if (name == nullptr || !name->is_string() || arguments == nullptr) return false;
  ToolCall call;
  call.name = name->get<std::string>();
  // Some models write the object as a string that holds it.
  call.arguments = arguments->is_string() && is_json(arguments->get_ref<const std::string&>())
                       ? arguments->get<std::string>()
                       : write_json(*arguments);
  if (const Json* id = member(json, {"id", "tool_call_id"}); id != nullptr && id->is_string()) {
    call.id = id->get<std::string>();
  }
  calls.push_back(std::move(call));
  return true;
}

/// The name and the arguments of a call, both trimmed; false if the arguments are not JSON.
bool add_named(std::string_view name, std::string_view arguments, std::vector<ToolCall>& calls) {
  name = trimmed(name);
  arguments = trimmed(arguments);
  if (name.empty() || !is_json(arguments)) return false;
  calls.push_back({"", std::string(name), std::string(arguments)});
  return true;
}

}  // namespace

Calls json(std::string_view text, const DeclaredTools& /*tools*/) {
  std::vector<ToolCall> calls;
  while (!trimmed(text).empty()) {
    const auto next = take_json(text);
    if (!next) return std::nullopt;
    const std::optional<Json> read = read_json(*next);
    if (!read || !add_call(*read, calls)) return std::nullopt;
    take(text, ";");
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

Calls named_json(std::string_view text, const DeclaredTools& /*tools*/) {
  const std::optional<Json> read = read_json(text);
  if (!read || !read->is_array()) return std::nullopt;
  std::vector<ToolCall> calls;
  for (const Json& item : *read) {
    if (!item.is_object() || item.size() != 1) return std::nullopt;
    calls.push_back({"", item.begin().key(), write_json(item.begin().value())});
  }
  return all_read(std::move(calls), "");
}

Calls mistral(std::string_view text, const DeclaredTools& tools) {
  if (trimmed(text).starts_with('[')) return json(text, tools);
  std::vector<ToolCall> calls;
  while (true) {
    auto name = take_until(text, "[ARGS]");
    if (!name) return std::nullopt;
    std::string_view id;
    if (const size_t at = name->find("[CALL_ID]"); at != std::string_view::npos) {
      id = trimmed(name->substr(at + 9));
      name = name->substr(0, at);
    }
    const auto arguments = take_json(text);
    if (!arguments || !add_named(*name, *arguments, calls)) return std::nullopt;
    calls.back().id = id;
    if (trimmed(text).empty()) return calls;
    if (!take(text, "[TOOL_CALLS]")) return std::nullopt;
  }
}

Calls deepseek(std::string_view text, const DeclaredTools& /*tools*/) {
  std::vector<ToolCall> calls;
  while (take(text, "<｜tool▁call▁begin｜>")) {
    auto name = take_until(text, "<｜tool▁sep｜>");
    if (!name) return std::nullopt;
    const bool fenced = trimmed(*name) == "function" && !trimmed(text).starts_with('{');
    if (fenced) name = take_until(text, "```json");
    const auto arguments = take_json(text);
    if (fenced) take(text, "```");
    if (!name || !arguments || !take(text, "<｜tool▁call▁end｜>")) return std::nullopt;
    if (!add_named(*name, *arguments, calls)) return std::nullopt;
  }
  return all_read(std::move(calls), text);
}

Calls kimi(std::string_view text, const DeclaredTools& /*tools*/) {
  std::vector<ToolCall> calls;
  while (take(text, "<|tool_call_begin|>")) {
    const auto id = take_until(text, "<|tool_call_argument_begin|>");
    const auto arguments = take_json(text);
    if (!id || !arguments || !take(text, "<|tool_call_end|>")) return std::nullopt;
    if (!add_named(*id, *arguments, calls)) return std::nullopt;
    ToolCall& call = calls.back();
    call.id = call.name;
    if (call.name.starts_with("functions.")) call.name.erase(0, 10);
    call.name.resize(std::min(call.name.rfind(':'), call.name.size()));
  }
  return all_read(std::move(calls), text);
}

Calls plamo(std::string_view text, const DeclaredTools& /*tools*/) {
  std::vector<ToolCall> calls;
  while (take(text, "<|plamo:begin_tool_request:plamo|>")) {
    if (!take(text, "<|plamo:begin_tool_name:plamo|>")) return std::nullopt;
    const auto name = take_until(text, "<|plamo:end_tool_name:plamo|>");
    if (!name || !take(text, "<|plamo:begin_tool_arguments:plamo|>")) return std::nullopt;
    if (take(text, "<|plamo:constrain|>")) take(text, "json");
    take(text, "<|plamo:msg|>");
    const auto arguments = take_json(text);
    if (!arguments || !take(text, "<|plamo:end_tool_arguments:plamo|>") ||
        !take(text, "<|plamo:end_tool_request:plamo|>") || !add_named(*name, *arguments, calls)) {
      return std::nullopt;
    }
  }
  return all_read(std::move(calls), text);
}

Calls function_json(std::string_view text, const DeclaredTools& /*tools*/) {
  const auto name = take_until(text, ">");
  std::vector<ToolCall> calls;
  if (!name || !add_named(*name, text, calls)) return std::nullopt;
  return calls;
}

Calls python_code(std::string_view text, const DeclaredTools& tools) {
  if (Calls calls = json(text, tools)) return calls;
  const std::optional<Json> read = read_json(text);
  if (read && read->is_object()) {
    return std::vector<ToolCall>{{"", "python", std::string(trimmed(text))}};
  }
  const Json code = read && read->is_string() ? *read : Json(trimmed(text));
  return std::vector<ToolCall>{{"", "python", write_json(Json{{"code", code}})}};
}

}  // namespace infer::calls
