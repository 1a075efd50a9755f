#include "server/api/forced_tool.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "server/json.h"

namespace infer::server {
namespace {

/// Keywords whose value is no schema and has none in it.
constexpr std::array kValues = {"const", "enum", "default", "examples"};
/// Keywords whose members are schemas by names of the client's choice.
constexpr std::array kNamed = {"properties", "patternProperties", "$defs", "definitions",
                               "dependentSchemas"};

/// Makes the references of a schema that is part of another one refer to the same places there.
/// `at`: where it is, as a JSON pointer behind "#".
void move_references(Json& schema, const std::string& at) {
  if (schema.is_array()) {
    for (Json& part : schema) move_references(part, at);
  }
  if (!schema.is_object()) return;
  for (auto& [key, value] : schema.items()) {
    if (std::ranges::find(kValues, key) != kValues.end()) continue;
    if (std::ranges::find(kNamed, key) != kNamed.end() && value.is_object()) {
      for (auto& [name, named] : value.items()) move_references(named, at);
    } else if (key != "$ref" || !value.is_string()) {
      move_references(value, at);
    } else if (const auto to = value.get<std::string>(); to == "#" || to.starts_with("#/")) {
      value = "#" + at + to.substr(1);
    }
  }
}

/// What the arguments of a function have to be: an object, whether its schema says so or not.
Json arguments_schema(const Json& function) {
  const auto found = function.find("parameters");
  Json schema = found != function.end() && found->is_object() ? *found : Json::object();
  schema["type"] = "object";
  return schema;
}

/// The name of the function that `tool_choice` asks for; empty: any. None: it asks for no call.
std::optional<std::string> chosen_function(Fields& fields) {
  const Json* choice = fields.find("tool_choice");
  if (choice == nullptr || *choice == "auto" || *choice == "none") return std::nullopt;
  if (*choice == "required") return "";
  if (!choice->is_object()) {
    fields.wrong("tool_choice", "none, auto, required or an object that names a function");
  }
  Fields inner(*choice, fields.path_of("tool_choice"));
  const Json* function = inner.object("function");
  if (function == nullptr) inner.wrong("function", "an object with a name");
  return Fields(*function, inner.path_of("function")).text("name").value_or("");
}

}  // namespace

void force_tool(Fields& fields, const Json& tools, CompletionRequest& request) {
  const std::optional<std::string> name = chosen_function(fields);
  if (!name) return;
  if (tools.empty()) fields.wrong("tools", "at least one tool, since tool_choice requires a call");
  if (!name->empty() || tools.size() == 1) {
    for (const Json& tool : tools) {
      const Json& function = tool["function"];
      if (!name->empty() && function["name"] != *name) continue;
      request.forced = function["name"];
      request.options.json_schema = write_json(arguments_schema(function));
      return;
    }
    fields.wrong("tool_choice", "the name of a function in tools");
  }
  Json any = Json::array();
  for (const Json& tool : tools) {
    const Json& function = tool["function"];
    Json arguments = arguments_schema(function);
    move_references(arguments, fmt::format("/anyOf/{}/properties/arguments", any.size()));
    any.push_back({{"type", "object"},
                   {"properties",
                    {{"name", {{"const", function["name"]}}}, {"arguments", std::move(arguments)}}},
                   {"required", {"name", "arguments"}},
                   {"additionalProperties", false}});
  }
  request.forced = "*";
  request.options.json_schema = write_json({{"anyOf", std::move(any)}});
}

}  // namespace infer::server
