#include "server/api/schema_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "server/api/problem.h"

namespace infer::server {
namespace {

/// Keywords whose value is no schema and has none in it.
constexpr std::array kValues = {"const", "enum", "default", "examples"};
/// Keywords whose members are schemas by names of the client's choice.
constexpr std::array kNamed = {"properties", "patternProperties", "$defs", "definitions",
                               "dependentSchemas"};

/// Whether a number in the value may be a whole one that 64 bits do not hold: such a number was
/// read as a float, which has fewer digits.
bool may_be_rounded(const Json& value) {
  if (value.is_structured()) return std::ranges::any_of(value, may_be_rounded);
  return value.is_number_float() && std::abs(value.get<double>()) >= 0x1p63;
}

/// The same of the values that a schema names.
bool may_name_rounded(const Json& schema) {
  if (schema.is_array()) return std::ranges::any_of(schema, may_name_rounded);
  if (!schema.is_object()) return false;
  for (const auto& [key, value] : schema.items()) {
    if (key == "enum" || key == "const") {
      if (may_be_rounded(value)) return true;
    } else if (std::ranges::find(kValues, key) != kValues.end()) {
      continue;
    } else if (std::ranges::find(kNamed, key) != kNamed.end() && value.is_object()) {
      if (std::ranges::any_of(value, may_name_rounded)) return true;
    } else if (may_name_rounded(value)) {
      return true;
    }
  }
  return false;
}

}  // namespace

void check_schema(const std::string& field, const Json& schema) {
  if (may_name_rounded(schema)) {
    throw Problem(400, field + ": expected numbers of at most 64 bits in enum and const", field);
  }
}

void hold_to_schema(const std::string& field, const Json& schema, CompletionRequest& request) {
  check_schema(field, schema);
  request.options.json_schema = write_json(schema);
  request.constraint_field = field;
}

void move_references(Json& schema, const std::string& at, const std::string& id) {
  if (schema.is_array()) {
    for (Json& part : schema) move_references(part, at, id);
  }
  if (!schema.is_object()) return;
  for (auto& [key, value] : schema.items()) {
    if (std::ranges::find(kValues, key) != kValues.end()) continue;
    if (std::ranges::find(kNamed, key) != kNamed.end() && value.is_object()) {
      for (auto& [name, named] : value.items()) move_references(named, at, id);
    } else if (key != "$ref" || !value.is_string()) {
      move_references(value, at, id);
    } else {
      auto to = value.get<std::string>();
      if (!id.empty() && (to == id || to.starts_with(id + "#"))) to.erase(0, id.size());
      if (to.empty() || to == "#" || to.starts_with("#/")) {
        value = "#" + at + (to.empty() ? "" : to.substr(1));
      }
    }
  }
}

}  // namespace infer::server
