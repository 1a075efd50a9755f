// A plain validator of JSON schemas for the keywords that the test's schemas use, apart from the
// code under test. Formats are not looked at.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/sample/grammar/regex.h"

namespace infer::test {

class Validator {
 public:
  using Json = nlohmann::ordered_json;

  explicit Validator(const Json& root) : root_(root) {}
  bool valid(const Json& value) { return valid(root_, value); }

 private:
  static bool same(const Json& a, const Json& b) {
    // Objects without order.
    return nlohmann::json::parse(a.dump()) == nlohmann::json::parse(b.dump());
  }

  static bool is_type(const std::string& name, const Json& v) {
    if (name == "null") return v.is_null();
    if (name == "boolean") return v.is_boolean();
    if (name == "number") return v.is_number();
    if (name == "integer") {
      return v.is_number_integer() ||
             (v.is_number_float() && std::floor(v.get<double>()) == v.get<double>());
    }
    if (name == "string") return v.is_string();
    if (name == "array") return v.is_array();
    return v.is_object();
  }

  static bool matches(const std::string& pattern, const std::string& text) {
    CharWork work;
    const auto dfa = compile_regex(pattern, work);
    return dfa && dfa->matches(text);
  }

  static size_t length(const std::string& s) {
    size_t n = 0;
    for (const char c : s) n += (static_cast<unsigned char>(c) & 0xc0) != 0x80 ? 1 : 0;
    return n;
  }

  const Json& target(const std::string& ref) const {
    const size_t hash = ref.find('#');
    std::string path = ref.substr(hash + 1);
    if (path == "here") path = "/$defs/x";
    if (const size_t p = path.find("%25"); p != std::string::npos) path.replace(p, 3, "%");
    return root_.at(Json::json_pointer(path));
  }

  bool valid(const Json& s, const Json& v) {
    if (s.is_boolean()) return s.get<bool>();
    return types(s, v) && numbers(s, v) && strings(s, v) && arrays(s, v) && objects(s, v) &&
           combinations(s, v);
  }

  static bool types(const Json& s, const Json& v) {
    if (s.contains("type")) {
      bool any = false;
      if (s["type"].is_string()) any = is_type(s["type"], v);
      if (s["type"].is_array()) {
        for (const auto& t : s["type"]) any = any || is_type(t, v);
      }
      if (!any) return false;
    }
    if (s.contains("const") && !same(s["const"], v)) return false;
    if (!s.contains("enum")) return true;
    for (const auto& e : s["enum"]) {
      if (same(e, v)) return true;
    }
    return false;
  }

  static bool numbers(const Json& s, const Json& v) {
    if (!v.is_number()) return true;
    const double x = v;
    if (!std::isfinite(x)) return false;
    if (s.contains("minimum") && x < s["minimum"].get<double>()) return false;
    if (s.contains("maximum") && x > s["maximum"].get<double>()) return false;
    if (s.contains("exclusiveMinimum") && x <= s["exclusiveMinimum"].get<double>()) return false;
    if (s.contains("exclusiveMaximum") && x >= s["exclusiveMaximum"].get<double>()) return false;
    return !s.contains("multipleOf") || std::fmod(x, s["multipleOf"].get<double>()) == 0;
  }

  static bool strings(const Json& s, const Json& v) {
    if (!v.is_string()) return true;
    const std::string text = v;
    if (s.contains("minLength") && length(text) < s["minLength"]) return false;
    if (s.contains("maxLength") && length(text) > s["maxLength"]) return false;
    return !s.contains("pattern") || matches(s["pattern"], text);
  }

  bool arrays(const Json& s, const Json& v) {
    if (!v.is_array()) return true;
    if (s.contains("minItems") && v.size() < s["minItems"]) return false;
    if (s.contains("maxItems") && v.size() > s["maxItems"]) return false;
    bool found = !s.contains("contains");
    const size_t prefix = s.contains("prefixItems") ? s["prefixItems"].size() : 0;
    for (size_t i = 0; i < v.size(); ++i) {
      found = found || valid(s["contains"], v[i]);
      if (i < prefix) {
        if (!valid(s["prefixItems"][i], v[i])) return false;
        continue;
      }
      for (const char* rest : {"items", "unevaluatedItems"}) {
        if (s.contains(rest) && !valid(s[rest], v[i])) return false;
      }
    }
    return found;
  }

  bool objects(const Json& s, const Json& v) {
    if (!v.is_object()) return true;
    if (s.contains("minProperties") && v.size() < s["minProperties"]) return false;
    if (s.contains("maxProperties") && v.size() > s["maxProperties"]) return false;
    if (s.contains("required")) {
      for (const auto& name : s["required"]) {
        if (!v.contains(name.get<std::string>())) return false;
      }
    }
    for (const auto& [name, inner] : v.items()) {
      bool named = false;
      if (s.contains("properties") && s["properties"].contains(name)) {
        named = true;
        if (!valid(s["properties"][name], inner)) return false;
      }
      if (s.contains("patternProperties")) {
        for (const auto& [pattern, schema] : s["patternProperties"].items()) {
          if (!matches(pattern, name)) continue;
          named = true;
          if (!valid(schema, inner)) return false;
        }
      }
      for (const char* rest : {"additionalProperties", "unevaluatedProperties"}) {
        if (!named && s.contains(rest) && !valid(s[rest], inner)) return false;
      }
      if (s.contains("propertyNames") && !valid(s["propertyNames"], Json(name))) return false;
      if (s.contains("dependentSchemas") && s["dependentSchemas"].contains(name) &&
          !valid(s["dependentSchemas"][name], v)) {
        return false;
      }
      if (!s.contains("dependentRequired") || !s["dependentRequired"].contains(name)) continue;
      for (const auto& other : s["dependentRequired"][name]) {
        if (!v.contains(other.get<std::string>())) return false;
      }
    }
    return true;
  }

  bool combinations(const Json& s, const Json& v) {
    if (s.contains("$ref") && !valid(target(s["$ref"]), v)) return false;
    if (s.contains("not") && valid(s["not"], v)) return false;
    const auto count = [&](const char* keyword) {
      size_t n = 0;
      for (const auto& one : s[keyword]) n += valid(one, v) ? 1 : 0;
      return n;
    };
    if (s.contains("allOf") && count("allOf") != s["allOf"].size()) return false;
    if (s.contains("anyOf") && count("anyOf") == 0) return false;
    if (s.contains("oneOf") && count("oneOf") != 1) return false;
    if (!s.contains("if")) return true;
    const char* branch = valid(s["if"], v) ? "then" : "else";
    return !s.contains(branch) || valid(s[branch], v);
  }

  const Json& root_;
};

}  // namespace infer::test
