#include "engine/text/output/declared_tools.h"

#include <algorithm>
#include <initializer_list>

#include "engine/core/status.h"
#include "engine/text/output/call_text.h"

namespace infer {
namespace {

using calls::Json;

constexpr int kMostNested = 32;  // references and combinations within each other

const Json* member(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() ? nullptr : &*found;
}

unsigned type_named(const Json& name) {
  constexpr std::pair<std::string_view, unsigned> kNames[] = {
      {"string", kStringType},   {"number", kNumberType | kIntegerType},
      {"integer", kIntegerType}, {"boolean", kBooleanType},
      {"null", kNullType},       {"object", kObjectType},
      {"array", kArrayType}};
  for (const auto& [known, type] : kNames) {
    if (name == known) return type;
  }
  return kAnyType;  // no type of JSON schema
}

unsigned type_of_value(const Json& value) {
  switch (value.type()) {
    case Json::value_t::string: return kStringType;
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned: return kIntegerType;
    case Json::value_t::number_float: return kNumberType | kIntegerType;
    case Json::value_t::boolean: return kBooleanType;
    case Json::value_t::null: return kNullType;
    case Json::value_t::object: return kObjectType;
    case Json::value_t::array: return kArrayType;
    default: return kAnyType;
  }
}

/// The types that the values of a schema can have, as far as its keywords say so.
class SchemaTypes {
 public:
  /// `root`: what references are relative to. `left`: schemas that may still be looked at.
  SchemaTypes(const Json& root, int& left) : root_(root), left_(left) {}

  unsigned of(const Json& schema, int depth = 0) {
    if (!schema.is_object() || depth > kMostNested || --left_ < 0) return kAnyType;
    unsigned types = kAnyType;
    if (const Json* type = member(schema, "type")) {
      types &= type->is_array() ? any(*type, type_named) : type_named(*type);
    }
    if (const Json* values = member(schema, "enum"); values != nullptr && values->is_array()) {
      types &= any(*values, type_of_value);
    }
    if (const Json* value = member(schema, "const")) types &= type_of_value(*value);
    const auto inner = [&](const Json& part) { return of(part, depth + 1); };
    for (const char* name : {"anyOf", "oneOf"}) {
      const Json* parts = member(schema, name);
      if (parts != nullptr && parts->is_array()) types &= any(*parts, inner);
    }
    if (const Json* parts = member(schema, "allOf"); parts != nullptr && parts->is_array()) {
      for (const Json& part : *parts) types &= inner(part);
    }
    if (const Json* reference = member(schema, "$ref")) {
      const Json* named = calls::referenced(root_, *reference);
      types &= named == nullptr ? kAnyType : inner(*named);
    }
    if (member(schema, "nullable") != nullptr && schema["nullable"] == true) types |= kNullType;
    return types == 0 ? kAnyType : types;
  }

 private:
  template <class Types>
  static unsigned any(const Json& parts, Types&& types) {
    unsigned all = 0;
    for (const Json& part : parts) all |= types(part);
    return all == 0 ? kAnyType : all;
  }

  const Json& root_;
  int& left_;
};

}  // namespace

namespace calls {

const Json* referenced(const Json& root, const Json& reference) {
  if (!reference.is_string()) return nullptr;
  const auto& text = reference.get_ref<const std::string&>();
  if (!text.starts_with("#/")) return nullptr;
  const Json* at = &root;
  std::string_view rest = std::string_view(text).substr(2);
  while (true) {
    const size_t end = std::min(rest.find('/'), rest.size());
    at = member(*at, std::string(rest.substr(0, end)).c_str());
    if (at == nullptr || end == rest.size()) return at;
    rest.remove_prefix(end + 1);
  }
}

unsigned schema_types(const Json& root, const Json& schema, int& left) {
  return SchemaTypes(root, left).of(schema);
}

}  // namespace calls

Result<DeclaredTools> DeclaredTools::read(std::string_view json) {
  DeclaredTools tools;
  if (json.empty()) return tools;
  const std::optional<Json> all = calls::read_json(json);
  if (!all || !all->is_array()) {
    return fail(StatusCode::invalid_argument, "tools: expected a JSON array of functions");
  }
  for (const Json& tool : *all) {
    const Json* wrapped = member(tool, "function");
    const Json& function = wrapped != nullptr ? *wrapped : tool;
    const Json* name = member(function, "name");
    if (name == nullptr || !name->is_string()) continue;
    Parameters& types = tools.types_[name->get<std::string>()];
    const Json* schema = member(function, "parameters");
    const Json* properties = schema == nullptr ? nullptr : member(*schema, "properties");
    if (properties == nullptr || !properties->is_object()) continue;
    int left = 10'000;  // schemas for a function
    SchemaTypes reader(*schema, left);
    for (const auto& [key, property] : properties->items()) types[key] = reader.of(property);
  }
  return tools;
}

unsigned DeclaredTools::types(std::string_view function, std::string_view parameter) const {
  const auto found = types_.find(function);
  if (found == types_.end()) return kAnyType;
  const auto type = found->second.find(parameter);
  return type == found->second.end() ? kAnyType : type->second;
}

}  // namespace infer
