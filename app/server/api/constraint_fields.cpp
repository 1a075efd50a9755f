#include "server/api/constraint_fields.h"

#include <fmt/format.h>

#include "server/api/schema_fields.h"

namespace infer::server {
namespace {

constexpr size_t kMostChoices = 10'000;
constexpr const char* kNoExpression =
    "texts are not held to a regular expression alone; use a JSON schema with a pattern, or a "
    "grammar";

/// {"type": "json_schema", "json_schema": {"schema": {…}}} and its shorter kin.
void read_response_format(Fields& fields, CompletionRequest& request) {
  const Json* format = fields.object("response_format");
  if (format == nullptr) return;
  Fields inner(*format, fields.path_of("response_format"));
  const std::string type = inner.text("type").value_or("text");
  if (type == "text") return;
  if (type == "json_object" && !inner.has("schema")) {
    return hold_to_schema(inner.path_of("type"), {{"type", "object"}}, request);
  }
  if (type != "json_object" && type != "json_schema") {
    inner.wrong("type", "text, json_object or json_schema");
  }
  const Json* schema = inner.schema("schema");
  std::string path = inner.path_of("schema");
  if (const Json* named = inner.object("json_schema"); named != nullptr) {
    Fields description(*named, inner.path_of("json_schema"));
    schema = description.schema("schema");
    path = description.path_of("schema");
  }
  if (schema == nullptr) inner.wrong("json_schema", "an object with a schema");
  hold_to_schema(path, *schema, request);
}

void hold_to_grammar(Fields& fields, const char* name, CompletionRequest& request) {
  const auto grammar = fields.text(name);
  if (!grammar || grammar->empty()) return;
  request.options.grammar = *grammar;
  request.constraint_field = fields.path_of(name);
}

/// A schema, which may be written as a string that holds it.
void hold_to_json(Fields& fields, const char* name, CompletionRequest& request) {
  const Json* given = fields.find(name);
  if (given == nullptr) return;
  const Json schema =
      given->is_string() ? parse_json(given->get_ref<const std::string&>()) : *given;
  if (!schema.is_object() && !schema.is_boolean()) {
    fields.wrong(name, "a JSON schema: an object, true or false, or a string that holds one");
  }
  hold_to_schema(fields.path_of(name), schema, request);
}

/// One of these texts, as a grammar.
void hold_to_choice(Fields& fields, const char* name, CompletionRequest& request) {
  if (!fields.has(name)) return;
  const std::vector<std::string> choices = fields.texts(name, kMostChoices);
  if (choices.empty()) fields.wrong(name, "at least one text");
  std::string grammar = "root ::=";
  for (const std::string& choice : choices) {
    grammar += grammar.ends_with('=') ? " \"" : " | \"";
    for (const char c : choice) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        grammar += {'\\', c};
      } else if (byte < 0x20) {
        grammar += fmt::format("\\x{:02X}", byte);
      } else {
        grammar += c;
      }
    }
    grammar += '"';
  }
  request.options.grammar = std::move(grammar);
  request.constraint_field = fields.path_of(name);
}

/// What vLLM calls them, in the request itself until 2025 and in an object of their own since.
void read_structured_outputs(Fields& fields, CompletionRequest& request) {
  hold_to_json(fields, "guided_json", request);
  hold_to_choice(fields, "guided_choice", request);
  hold_to_grammar(fields, "guided_grammar", request);
  fields.refuse("guided_regex", kNoExpression);
  const Json* given = fields.object("structured_outputs");
  if (given == nullptr) return;
  Fields inner(*given, fields.path_of("structured_outputs"));
  hold_to_json(inner, "json", request);
  hold_to_choice(inner, "choice", request);
  hold_to_grammar(inner, "grammar", request);
  if (inner.boolean("json_object").value_or(false)) {
    hold_to_schema(inner.path_of("json_object"), {{"type", "object"}}, request);
  }
  inner.refuse("regex", kNoExpression);
  inner.refuse("structural_tag", "structural tags are not supported; use a grammar");
}

}  // namespace

void read_constraints(Fields& fields, CompletionRequest& request) {
  read_response_format(fields, request);
  if (const Json* schema = fields.schema("json_schema")) {
    hold_to_schema(fields.path_of("json_schema"), *schema, request);
  }
  hold_to_grammar(fields, "grammar", request);
  read_structured_outputs(fields, request);
}

void read_described_format(Fields& described, CompletionRequest& request) {
  const std::string type = described.text("type").value_or("text");
  if (type == "json_object") {
    hold_to_schema(described.path_of("type"), {{"type", "object"}}, request);
  } else if (type == "json_schema") {
    const Json* schema = described.schema("schema");
    if (schema == nullptr) described.wrong("schema", "a JSON schema");
    hold_to_schema(described.path_of("schema"), *schema, request);
  } else if (type != "text") {
    described.wrong("type", "text, json_object or json_schema");
  }
}

}  // namespace infer::server
