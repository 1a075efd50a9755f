#include "engine/text/output_format.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace infer {
namespace {

using Json = nlohmann::ordered_json;
using Calls = std::optional<std::vector<ToolCall>>;

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kWhiteSpace) - first + 1);
}

std::optional<Json> read_json(std::string_view text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

std::string write_json(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Takes what lies before `mark` off the front, and the mark; nothing if it does not come.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view mark) {
  const size_t at = text.find(mark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, at);
  text.remove_prefix(at + mark.size());
  return before;
}

/// Takes a mark and the white space around it off the front.
bool take(std::string_view& text, std::string_view mark) {
  const std::string_view rest =
      text.substr(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
  if (!rest.starts_with(mark)) return false;
  text = rest.substr(mark.size());
  return true;
}

/// The beginning of `text` up to where one JSON object or array ends.
std::optional<std::string_view> take_json(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kWhiteSpace), text.size()));
  if (text.empty() || (text[0] != '{' && text[0] != '[')) return std::nullopt;
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
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      const std::string_view json = text.substr(0, i + 1);
      text.remove_prefix(i + 1);
      return json;
    }
  }
  return std::nullopt;
}

bool add_call(const Json& json, std::vector<ToolCall>& calls) {
  if (json.is_array()) {
    return std::ranges::all_of(json, [&](const Json& item) { return add_call(item, calls); });
  }
  if (!json.is_object()) return false;
  if (const auto inner = json.find("function"); inner != json.end() && inner->is_object()) {
    return add_call(*inner, calls);
  }
  const auto name = json.find("name");
  if (name == json.end() || !name->is_string()) return false;
  auto arguments = json.find("arguments");
  if (arguments == json.end()) arguments = json.find("parameters");
  if (arguments == json.end()) return false;
  ToolCall call;
  call.name = name->get<std::string>();
  // Some models write the object as a string that holds it.
  call.arguments = arguments->is_string() && is_json(arguments->get_ref<const std::string&>())
                       ? arguments->get<std::string>()
                       : write_json(*arguments);
  if (const auto id = json.find("id"); id != json.end() && id->is_string()) {
    call.id = id->get<std::string>();
  }
  calls.push_back(std::move(call));
  return true;
}

/// A value of a form without JSON.
Json loose_value(std::string_view text) {
  const std::optional<Json> json = read_json(text);
  return json && !json->is_string() ? *json : Json(text);
}

Calls parse_function_xml(std::string_view text) {
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
      std::string_view bare = *value;
      if (bare.starts_with('\n')) bare.remove_prefix(1);
      if (bare.ends_with('\n')) bare.remove_suffix(1);
      arguments[std::string(*key)] = loose_value(bare);
    }
    if (!take(text, "</function>")) return std::nullopt;
    calls.push_back({"", std::string(trimmed(*name)), write_json(arguments)});
  }
  if (!trimmed(text).empty() || calls.empty()) return std::nullopt;
  return calls;
}

Calls parse_glm(std::string_view text) {
  const size_t end = std::min(text.find("<arg_key>"), text.size());
  const std::string_view name = trimmed(text.substr(0, end));
  text.remove_prefix(end);
  if (name.empty() || name.find_first_of("<{\n") != std::string_view::npos) return std::nullopt;
  Json arguments = Json::object();
  while (take(text, "<arg_key>")) {
    const auto key = take_until(text, "</arg_key>");
    if (!key || !take(text, "<arg_value>")) return std::nullopt;
    const auto value = take_until(text, "</arg_value>");
    if (!value) return std::nullopt;
    arguments[std::string(*key)] = loose_value(*value);
  }
  if (!trimmed(text).empty()) return std::nullopt;
  return std::vector<ToolCall>{{"", std::string(name), write_json(arguments)}};
}

Calls parse_mistral(std::string_view text) {
  if (trimmed(text).starts_with('[')) return parse_json_calls(text);
  std::vector<ToolCall> calls;
  while (true) {
    auto name = take_until(text, "[ARGS]");
    if (!name) return std::nullopt;
    ToolCall call;
    if (const size_t id = name->find("[CALL_ID]"); id != std::string_view::npos) {
      call.id = trimmed(name->substr(id + 9));
      name = name->substr(0, id);
    }
    call.name = trimmed(*name);
    const auto arguments = take_json(text);
    if (call.name.empty() || !arguments || !is_json(*arguments)) return std::nullopt;
    call.arguments = *arguments;
    calls.push_back(std::move(call));
    if (trimmed(text).empty()) return calls;
    if (!take(text, "[TOOL_CALLS]")) return std::nullopt;
  }
}

Calls parse_deepseek(std::string_view text) {
  std::vector<ToolCall> calls;
  while (take(text, "<｜tool▁call▁begin｜>")) {
    const auto first = take_until(text, "<｜tool▁sep｜>");
    auto rest = take_until(text, "<｜tool▁call▁end｜>");
    if (!first || !rest) return std::nullopt;
    std::string_view name = trimmed(*first);
    std::string_view arguments = trimmed(*rest);
    if (name == "function" && arguments.find("```") != std::string_view::npos) {
      const auto named = take_until(*rest, "```json");
      if (!named) return std::nullopt;
      name = trimmed(*named);
      const auto code = take_until(*rest, "```");
      arguments = trimmed(code ? *code : *rest);
    }
    if (name.empty() || !is_json(arguments)) return std::nullopt;
    calls.push_back({"", std::string(name), std::string(arguments)});
  }
  if (!trimmed(text).empty() || calls.empty()) return std::nullopt;
  return calls;
}

Calls parse_dsml(std::string_view text) {
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
  if (!trimmed(text).empty() || calls.empty()) return std::nullopt;
  return calls;
}

Calls parse_kimi(std::string_view text) {
  std::vector<ToolCall> calls;
  while (take(text, "<|tool_call_begin|>")) {
    const auto id = take_until(text, "<|tool_call_argument_begin|>");
    const auto arguments = take_until(text, "<|tool_call_end|>");
    if (!id || !arguments || !is_json(*arguments)) return std::nullopt;
    std::string_view name = trimmed(*id);
    ToolCall call{std::string(name), "", std::string(trimmed(*arguments))};
    if (name.starts_with("functions.")) name.remove_prefix(10);
    call.name = name.substr(0, name.rfind(':'));
    calls.push_back(std::move(call));
  }
  if (!trimmed(text).empty() || calls.empty()) return std::nullopt;
  return calls;
}

/// The first whose marks are all in a template's source is its format.
constexpr OutputFormat kFormats[] = {
    {"harmony", {"<|channel|>", "<|message|>"}, {}, true},
    {"dsml",
     {"｜DSML｜"},
     {{"<｜DSML｜function_calls>", "</｜DSML｜function_calls>", parse_dsml},
      {"<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>", parse_dsml}}},
    {"deepseek",
     {"<｜tool▁calls▁begin｜>"},
     {{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", parse_deepseek}}},
    {"mistral", {"[TOOL_CALLS]"}, {{"[TOOL_CALLS]", "", parse_mistral}}},
    {"kimi",
     {"<|tool_calls_section_begin|>"},
     {{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", parse_kimi}}},
    {"seed", {"<seed:tool_call>"}, {{"<seed:tool_call>", "</seed:tool_call>", parse_function_xml}}},
    {"glm", {"<tool_call>", "<arg_key>"}, {{"<tool_call>", "</tool_call>", parse_glm}}},
    {"qwen-xml",
     {"<tool_call>", "<function="},
     {{"<tool_call>", "</tool_call>", parse_function_xml}}},
    {"granite", {"<|tool_call|>"}, {{"<|tool_call|>", "", parse_json_calls}}},
    {"hermes", {"<tool_call>"}, {{"<tool_call>", "</tool_call>", parse_json_calls}}},
    {"llama3",
     {"<|start_header_id|>", "\"parameters\""},
     {{"<|python_tag|>", "", parse_json_calls}},
     false,
     true},
    {"plain", {}, {}},
};

constexpr ReasoningMarks kReasoning[] = {
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"<think>", "</think>"},
};

}  // namespace

bool is_json(std::string_view text) { return Json::accept(text); }

Calls parse_json_calls(std::string_view text) {
  std::vector<ToolCall> calls;
  while (!trimmed(text).empty()) {
    const auto json = take_json(text);
    if (!json) return std::nullopt;
    const std::optional<Json> read = read_json(*json);
    if (!read || !add_call(*read, calls)) return std::nullopt;
    take(text, ";");
  }
  if (calls.empty()) return std::nullopt;
  return calls;
}

const OutputFormat& find_output_format(std::string_view template_source) {
  return *std::ranges::find_if(kFormats, [&](const OutputFormat& format) {
    return std::ranges::all_of(format.marks, [&](std::string_view mark) {
      return template_source.find(mark) != std::string_view::npos;
    });
  });
}

const ReasoningMarks* find_reasoning(std::string_view template_source) {
  const auto* found = std::ranges::find_if(kReasoning, [&](const ReasoningMarks& marks) {
    return template_source.find(marks.open) != std::string_view::npos ||
           template_source.find(marks.close) != std::string_view::npos;
  });
  return found == std::end(kReasoning) ? nullptr : found;
}

}  // namespace infer
