#include <algorithm>

#include "engine/text/output/call_text.h"

namespace infer::calls {
namespace {

/// A value as it stands between its tags; one line break at each end belongs to the tags.
Json tagged_value(std::string_view text, unsigned types) {
  if (text.starts_with('\n')) text.remove_prefix(1);
  if (text.ends_with('\n')) text.remove_suffix(1);
  return typed_value(text, types);
}

/// Pairs of <arg_key> and <arg_value>, to the end of the text. `ending`: of the names of all tags.
std::optional<Json> take_arguments(std::string_view text, const DeclaredTools& tools,
                                   std::string_view function, const std::string& ending = "") {
  Json arguments = Json::object();
  while (take(text, "<arg_key" + ending + ">")) {
    const auto key = take_until(text, "</arg_key" + ending + ">");
    if (!key || !take(text, "<arg_value" + ending + ">")) return std::nullopt;
    const auto value = take_until(text, "</arg_value" + ending + ">");
    if (!value) return std::nullopt;
    const std::string_view name = trimmed(*key);
    arguments[std::string(name)] = typed_value(*value, tools.types(function, name));
  }
  if (!trimmed(text).empty()) return std::nullopt;
  return arguments;
}

/// The text in a code block, or all of it.
std::string_view without_fence(std::string_view text) {
  text = trimmed(text);
  if (!text.starts_with("```")) return text;
  text.remove_prefix(std::min(text.find_first_of("\n{"), text.size()));
  if (text.ends_with("```")) text.remove_suffix(3);
  return trimmed(text);
}

constexpr std::string_view kMinimaxTag = "]<]minimax[>[<";

/// What stands between the tags of `name`, whose first one was taken, and the last one. `types`:
/// what it may be (ValueTypes).
std::optional<Json> take_minimax_value(std::string_view& text, std::string_view name,
                                       unsigned types, int depth) {
  const std::string close = std::string(kMinimaxTag) + "/" + std::string(name) + ">";
  const std::string_view next = trimmed(text);
  if (depth >= kMaxDepth) return std::nullopt;
  if (!next.starts_with(kMinimaxTag) || next.starts_with(close)) {
    const auto value = take_until(text, close);
    if (!value) return std::nullopt;
    return tagged_value(*value, types);
  }
  Json members = Json::object();
  Json elements = Json::array();
  while (!trimmed(text).starts_with(close)) {
    if (!take(text, kMinimaxTag)) return std::nullopt;
    const auto key = take_until(text, ">");
    if (!key) return std::nullopt;
    std::optional<Json> value = take_minimax_value(text, *key, 0, depth + 1);
    if (!value) return std::nullopt;
    if (*key == "item") elements.push_back(*value);
    members[std::string(*key)] = *std::move(value);
  }
  take(text, close);
  const bool items =
      !elements.empty() && members.size() == 1 && (types == 0 || (types & kArrayType) != 0);
  return items ? elements : members;
}

Calls hunyuan_of(const std::string& ending, std::string_view text, const DeclaredTools& tools) {
  std::vector<ToolCall> calls;
  while (take(text, "<tool_call" + ending + ">")) {
    auto call = take_until(text, "</tool_call" + ending + ">");
    if (!call) return std::nullopt;
    const size_t end = std::min(call->find_first_of("<\n`{"), call->size());
    const std::string_view name = trimmed(call->substr(0, end));
    call->remove_prefix(end);
    take(*call, "<tool_sep" + ending + ">");
    std::string arguments(without_fence(*call));
    if (const auto tagged = take_arguments(*call, tools, name, ending)) {
      arguments = write_json(*tagged);
    }
    if (name.empty() || !is_json(arguments)) return std::nullopt;
    calls.push_back({"", std::string(name), std::move(arguments)});
  }
  return all_read(std::move(calls), text);
}

}  // namespace

Calls function_tags(std::string_view text, const DeclaredTools& tools) {
  std::vector<ToolCall> calls;
  while (take(text, "<function=")) {
    const auto name = take_until(text, ">");
    if (!name) return std::nullopt;
    Json arguments = Json::object();
    while (take(text, "<parameter=")) {
      const auto key = take_until(text, ">");
      if (!key) return std::nullopt;
      const auto value = take_until(text, "</parameter>");
      if (!value) return std::nullopt;
      arguments[std::string(*key)] = tagged_value(*value, tools.types(trimmed(*name), *key));
    }
    if (!take(text, "</function>")) return std::nullopt;
    calls.push_back({"", std::string(trimmed(*name)), write_json(arguments)});
  }
  return all_read(std::move(calls), text);
}

Calls open_function_tags(std::string_view text, const DeclaredTools& tools) {
  if (!tools.has(trimmed(text.substr(0, text.find('>'))))) return std::nullopt;
  std::string whole = "<function=";
  whole.append(text).append("</function>");
  return function_tags(whole, tools);
}

Calls argument_tags(std::string_view text, const DeclaredTools& tools) {
  const size_t end = std::min(text.find("<arg_key>"), text.size());
  const std::string_view name = trimmed(text.substr(0, end));
  if (name.empty() || name.find_first_of("<{\n") != std::string_view::npos) return std::nullopt;
  const std::optional<Json> arguments = take_arguments(text.substr(end), tools, name);
  if (!arguments) return std::nullopt;
  return std::vector<ToolCall>{{"", std::string(name), write_json(*arguments)}};
}

Calls dsml(std::string_view text, const DeclaredTools& /*tools*/) {
  std::vector<ToolCall> calls;
  while (take(text, "<｜DSML｜invoke name=\"")) {
    const auto name = take_until(text, "\">");
    if (!name) return std::nullopt;
    Json arguments = Json::object();
    while (take(text, "<｜DSML｜parameter name=\"")) {
      const auto key = take_until(text, "\"");
      const auto kind = take_until(text, ">");
      const auto value = take_until(text, "</｜DSML｜parameter>");
      if (!key || !kind || !value) return std::nullopt;
      if (kind->find("string=\"false\"") == std::string_view::npos) {
        arguments[std::string(*key)] = *value;
        continue;
      }
      const std::optional<Json> json = read_json(*value);
      if (!json) return std::nullopt;
      arguments[std::string(*key)] = *json;
    }
    if (!take(text, "</｜DSML｜invoke>")) return std::nullopt;
    calls.push_back({"", std::string(*name), write_json(arguments)});
  }
  return all_read(std::move(calls), text);
}

Calls invoke_tags(std::string_view text, const DeclaredTools& tools) {
  std::vector<ToolCall> calls;
  while (take(text, "<invoke name=\"")) {
    const auto name = take_until(text, "\">");
    if (!name) return std::nullopt;
    Json arguments = Json::object();
    while (take(text, "<parameter name=\"")) {
      const auto key = take_until(text, "\">");
      const auto value = take_until(text, "</parameter>");
      if (!key || !value) return std::nullopt;
      arguments[std::string(*key)] = tagged_value(*value, tools.types(*name, *key));
    }
    if (!take(text, "</invoke>")) return std::nullopt;
    calls.push_back({"", std::string(*name), write_json(arguments)});
  }
  return all_read(std::move(calls), text);
}

Calls minimax_m3(std::string_view text, const DeclaredTools& tools) {
  std::vector<ToolCall> calls;
  while (take(text, std::string(kMinimaxTag) + "invoke name=\"")) {
    const auto name = take_until(text, "\">");
    if (!name) return std::nullopt;
    Json arguments = Json::object();
    const std::string close = std::string(kMinimaxTag) + "/invoke>";
    while (!take(text, close)) {
      if (!take(text, kMinimaxTag)) return std::nullopt;
      const auto key = take_until(text, ">");
      if (!key) return std::nullopt;
      std::optional<Json> value = take_minimax_value(text, *key, tools.types(*name, *key), 1);
      if (!value) return std::nullopt;
      arguments[std::string(*key)] = *std::move(value);
    }
    calls.push_back({"", std::string(*name), write_json(arguments)});
  }
  return all_read(std::move(calls), text);
}

Calls hunyuan(std::string_view text, const DeclaredTools& tools) {
  return hunyuan_of("", text, tools);
}

Calls hunyuan_v3(std::string_view text, const DeclaredTools& tools) {
  return hunyuan_of(":opensource", text, tools);
}

Calls mcp(std::string_view text, const DeclaredTools& /*tools*/) {
  std::vector<ToolCall> calls;
  while (take(text, "<server_name>")) {
    if (!take_until(text, "</server_name>") || !take(text, "<tool_name>")) return std::nullopt;
    const auto name = take_until(text, "</tool_name>");
    if (!name || !take(text, "<arguments>")) return std::nullopt;
    const auto arguments = take_json(text);
    if (!arguments || !take(text, "</arguments>") || !is_json(*arguments)) return std::nullopt;
    calls.push_back({"", std::string(trimmed(*name)), std::string(*arguments)});
  }
  return all_read(std::move(calls), text);
}

}  // namespace infer::calls
