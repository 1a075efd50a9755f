#include "server/api/tool_choice.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include "server/api/problem.h"
#include "server/api/schema_fields.h"

namespace infer::server {
namespace {

constexpr size_t kMostAllowed = 1000;

/// What the arguments of a function have to be: an object, whether its schema says so or not.
Json arguments_schema(const Json& function) {
  const auto found = function.find("parameters");
  Json schema =
      found != function.end() && found->is_object() ? *found : Json{{"properties", Json::object()}};
  schema["type"] = "object";
  return schema;
}

/// The name in {"function": {"name"}}.
std::string function_name(Fields& fields) {
  const Json* function = fields.object("function");
  if (function == nullptr) fields.wrong("function", "an object with a name");
  Fields inner(*function, fields.path_of("function"));
  const std::string name = inner.text("name").value_or("");
  if (name.empty()) inner.wrong("name", "the name of a function in tools");
  return name;
}

void read_allowed(Fields& fields, ToolChoice& choice) {
  const Json* given = fields.object("allowed_tools");
  if (given == nullptr) fields.wrong("allowed_tools", "an object with a mode and tools");
  Fields inner(*given, fields.path_of("allowed_tools"));
  const std::string mode = inner.text("mode").value_or("auto");
  if (mode != "auto" && mode != "required") inner.wrong("mode", "auto or required");
  if (mode == "required") choice.mode = ToolChoice::Mode::required;
  const Json* tools = inner.array("tools", kMostAllowed);
  if (tools == nullptr || tools->empty()) inner.wrong("tools", "an array of at least one function");
  choice.allowed.emplace();
  for (size_t i = 0; i < tools->size(); ++i) {
    Fields tool((*tools)[i], inner.path_of(fmt::format("tools[{}]", i)));
    choice.allowed->push_back(function_name(tool));
  }
}

}  // namespace

ToolChoice read_tool_choice(Fields& fields) {
  ToolChoice choice;
  const Json* given = fields.find("tool_choice");
  if (given == nullptr || *given == "auto") return choice;
  if (*given == "none") {
    choice.mode = ToolChoice::Mode::none;
    return choice;
  }
  choice.mode = ToolChoice::Mode::required;
  if (*given == "required") return choice;
  if (!given->is_object()) {
    fields.wrong("tool_choice", "none, auto, required or an object that names a function");
  }
  Fields inner(*given, fields.path_of("tool_choice"));
  const std::string type = inner.text("type").value_or("function");
  if (type == "function") {
    choice.function = function_name(inner);
  } else if (type == "allowed_tools") {
    choice.mode = ToolChoice::Mode::automatic;
    read_allowed(inner, choice);
  } else {
    inner.wrong("type", "function or allowed_tools");
  }
  return choice;
}

Json allowed_tools(Fields& fields, const ToolChoice& choice, const Json& tools) {
  if (!choice.allowed) return tools;
  Json kept = Json::array();
  std::set<std::string> missing(choice.allowed->begin(), choice.allowed->end());
  const std::set<std::string> allowed = missing;
  for (const Json& tool : tools) {
    const auto name = tool["function"]["name"].get<std::string>();
    missing.erase(name);
    if (allowed.contains(name)) kept.push_back(tool);
  }
  if (!missing.empty()) {
    fields.wrong("tool_choice", fmt::format("names of functions in tools, where there is no {}",
                                            *missing.begin()));
  }
  return kept;
}

void force_tool(Fields& fields, const ToolChoice& choice, const Json& tools,
                CompletionRequest& request) {
  if (choice.mode != ToolChoice::Mode::required) return;
  if (tools.empty()) fields.wrong("tools", "at least one tool, since tool_choice requires a call");
  if (!choice.function.empty() || tools.size() == 1) {
    for (const Json& tool : tools) {
      const Json& function = tool["function"];
      if (!choice.function.empty() && function["name"] != choice.function) continue;
      request.forced = function["name"];
      hold_to_schema("tools", arguments_schema(function), request);
      return;
    }
    fields.wrong("tool_choice", "the name of a function in tools");
  }
  Json any = Json::array();
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    Json arguments = arguments_schema(function);
    const Json id = arguments.value("$id", Json());
    arguments.erase("$id");
    move_references(arguments, fmt::format("/anyOf/{}/properties/arguments", any.size()),
                    id.is_string() ? id.get<std::string>() : "");
    any.push_back({{"type", "object"},
                   {"properties",
                    {{"name", {{"const", function["name"]}}}, {"arguments", std::move(arguments)}}},
                   {"required", {"name", "arguments"}},
                   {"additionalProperties", false}});
  }
  request.forced = "*";
  hold_to_schema("tools", {{"anyOf", std::move(any)}}, request);
}

bool hold_calls(const Json& tools, CompletionRequest& request) {
  if (tools.empty() || !request.options.grammar.empty()) return false;
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    if (function.value("strict", Json()) != true) continue;
    check_schema("tools", function.value("parameters", Json()));
  }
  const Result<bool> done = OutputParser::hold_calls(request.template_source, request.prompt_text,
                                                     request.output, request.options);
  if (!done) {
    throw Problem(http_status(done.error().code()), "tools: " + done.error().message(), "tools");
  }
  const bool held = *done;
  if (held && request.constraint_field.empty()) request.constraint_field = "tools";
  return held;
}

}  // namespace infer::server
