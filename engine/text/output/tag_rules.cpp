#include "engine/text/output/tag_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace infer::calls {
namespace {

constexpr int kMostNested = 32;  // references and combinations within each other

constexpr TagForm kForms[] = {
    {.parse = function_tags,
     .open = "<function=",
     .named = ">",
     .close = "</function>",
     .key = "<parameter=",
     .keyed = ">",
     .ends = "</parameter>",
     .breaks = true},
    {.parse = open_function_tags,
     .named = ">",
     .key = "<parameter=",
     .keyed = ">",
     .ends = "</parameter>",
     .breaks = true},
    {.parse = invoke_tags,
     .open = "<invoke name=\"",
     .named = "\">",
     .close = "</invoke>",
     .key = "<parameter name=\"",
     .keyed = "\">",
     .ends = "</parameter>",
     .breaks = true},
    {.parse = argument_tags,
     .key = "<arg_key>",
     .keyed = "</arg_key>",
     .of_text = "<arg_value>",
     .of_json = "<arg_value>",
     .ends = "</arg_value>",
     .apart = true},
    {.parse = hunyuan_v3,
     .open = "<tool_call:opensource>",
     .named = "<tool_sep:opensource>",
     .close = "</tool_call:opensource>",
     .key = "<arg_key:opensource>",
     .keyed = "</arg_key:opensource>",
     .of_text = "<arg_value:opensource>",
     .of_json = "<arg_value:opensource>",
     .ends = "</arg_value:opensource>",
     .apart = true},
    {.parse = dsml,
     .open = "<｜DSML｜invoke name=\"",
     .named = "\">",
     .close = "</｜DSML｜invoke>",
     .key = "<｜DSML｜parameter name=\"",
     .keyed = "\" string=\"",
     .of_text = "true\">",
     .of_json = "false\">",
     .ends = "</｜DSML｜parameter>"},
};

std::string either(const std::vector<std::string>& alternatives) {
  return fmt::format("({})", fmt::join(alternatives, " | "));
}

/// The texts that a value of one parameter may have, with the tags behind its key.
class ValueRule {
 public:
  /// `name`: of the parameter, for messages.
  ValueRule(const TagForm& form, std::string name, const Json& root, unsigned types,
            RuleBudget& budget)
      : form_(form), name_(std::move(name)), root_(root), types_(types), budget_(budget) {}

  /// Leaves the rest out once the budget is used up.
  void add(const Json& schema, int depth = 0) {
    if (--budget_.schemas < 0) return;
    if (depth > kMostNested) return add_free();
    if (!schema.is_object()) return schema == false ? void() : add_free();
    if (schema.contains("$ref")) {
      if (const Json* named = referenced(root_, schema["$ref"])) return add(*named, depth + 1);
    }
    if (schema.contains("const")) return add_value(schema["const"]);
    if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
      for (const Json& value : *values) {
        if (budget_.bytes >= 0) add_value(value);
      }
      return;
    }
    for (const char* name : {"anyOf", "oneOf"}) {
      const auto parts = schema.find(name);
      if (parts == schema.end() || !parts->is_array()) continue;
      for (const Json& part : *parts) add(part, depth + 1);
      return;
    }
    const unsigned types = schema_types(root_, schema, budget_.schemas);
    if ((types & kStringType) != 0) return add_free();
    // Beside a text, other values than these are read as texts.
    constexpr unsigned kToldApart = kNullType | kArrayType | kObjectType;
    if (form_.types_values() || (types_ & kStringType) == 0 || (types & ~kToldApart) == 0) {
      add_json(schema);
      if (form_.types_values()) return;
      if ((types & kBooleanType) != 0) {
        add_text(others_, "True");
        add_text(others_, "False");
      }
      if ((types & kNullType) != 0) add_text(others_, "None");
    }
  }

  /// Any value.
  void add_any() {
    add_free();
    if (form_.types_values()) add_json(true);
  }

  /// Empty: there is no value that would be read as what the schema wants.
  std::string rule() const {
    std::vector<std::string> all;
    const auto add_of = [&](std::string_view tag, const std::vector<std::string>& values) {
      if (values.empty()) return;
      all.push_back(fmt::format("{} {} {}", form_.apart ? "ws" : "", mark(tag), either(values)));
    };
    add_of(form_.of_text, texts_);
    add_of(form_.of_json, others_);
    return all.empty() ? "" : either(all);
  }

 private:
  void add_free() {
    if (free_) return;
    free_ = true;
    push(texts_, "%until " + as_literal(form_.ends));
  }

  void add_value(const Json& value) {
    const std::string text = value.is_string() ? value.get<std::string>() : write_json(value);
    const bool is_read = form_.types_values() || typed_value(text, types_) == value;
    if (is_read) add_text(value.is_string() ? texts_ : others_, text);
  }

  void add_text(std::vector<std::string>& to, const std::string& text) {
    if (text.find(form_.ends) != text.npos) return;
    const char* line_break = form_.breaks ? "\"\\n\"?" : "";
    push(to,
         fmt::format("{} {} {} {}", line_break, as_literal(text), line_break, mark(form_.ends)));
  }

  void add_json(const Json& schema) {
    if (budget_.bytes < 0) return;
    Json own = schema;
    for (const char* name : {"$defs", "definitions"}) {
      if (root_.contains(name) && !own.contains(name)) own[name] = root_[name];
    }
    push(others_,
         fmt::format("ws %json {} {} ws {}", as_literal(name_), write_json(own), mark(form_.ends)));
  }

  void push(std::vector<std::string>& to, std::string rule) {
    budget_.bytes -= static_cast<int64_t>(rule.size());
    to.push_back(std::move(rule));
  }

  const TagForm& form_;
  std::string name_;
  const Json& root_;
  unsigned types_;
  RuleBudget& budget_;
  bool free_ = false;
  std::vector<std::string> texts_, others_;
};

std::string argument(const TagForm& form, const std::string& key, const std::string& value) {
  return fmt::format("ws {} {} {} {}", mark(form.key), key, mark(form.keyed), value);
}

}  // namespace

std::string as_literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string mark(std::string_view text) {
  return text.empty() ? "\"\"" : "%special " + as_literal(text);
}

const TagForm* find_tag_form(ParseCalls parse) {
  const auto* found = std::ranges::find(kForms, parse, &TagForm::parse);
  return found == std::end(kForms) ? nullptr : found;
}

Result<std::string> tagged_arguments(const TagForm& form, const std::string& tool,
                                     const Json& parameters, RuleBudget& budget) {
  for (const char* name : {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "enum", "const",
                           "patternProperties", "propertyNames", "minProperties",
                           "dependentRequired", "dependentSchemas", "dependencies"}) {
    if (!parameters.contains(name)) continue;
    return fail(StatusCode::invalid_argument,
                "the tool {}: '{}' of all parameters cannot be kept by calls of this model; use "
                "'properties' and 'required'",
                tool, name);
  }
  static const Json kNone = Json::object();
  const auto found = parameters.find("properties");
  const Json& properties = found != parameters.end() && found->is_object() ? *found : kNone;
  const auto wanted = parameters.find("required");
  const auto is_required = [&](const Json& key) {
    return wanted != parameters.end() && wanted->is_array() &&
           std::ranges::find(*wanted, key) != wanted->end();
  };
  std::string all;
  for (const auto& [key, schema] : properties.items()) {
    ValueRule value(form, fmt::format("the tool {}: the parameter {}", tool, key), parameters,
                    schema_types(parameters, schema, budget.schemas), budget);
    value.add(schema);
    if (budget.schemas < 0 || budget.bytes < 0) {
      return fail(
          StatusCode::unsupported,
          "the tool {}: the schemas of the strict tools are too large together for calls of "
          "this model",
          tool);
    }
    const bool required = is_required(key);
    if (value.rule().empty()) {
      if (!required) continue;
      return fail(StatusCode::invalid_argument,
                  "the tool {}: calls of this model have no form for a value of the parameter '{}'",
                  tool, key);
    }
    const std::string own = argument(form, as_literal(key), value.rule());
    all += fmt::format("({}){} ", own, required ? "" : "?");
  }
  if (wanted != parameters.end() && wanted->is_array()) {
    for (const Json& key : *wanted) {
      if (!key.is_string() || properties.contains(key.get<std::string>())) continue;
      ValueRule value(form, "", parameters, kAnyType, budget);
      value.add_any();
      all += argument(form, as_literal(key.get<std::string>()), value.rule()) + " ";
    }
  }
  return all + "\"\"";
}

std::string any_tagged_arguments(const TagForm& form) {
  static const Json kNone = Json::object();
  RuleBudget budget;
  ValueRule value(form, "", kNone, kAnyType, budget);
  value.add_any();
  const std::string key = fmt::format("[^{}\\n]{{1,256}}", form.keyed.front());
  return fmt::format("({})*", argument(form, key, value.rule()));
}

}  // namespace infer::calls
