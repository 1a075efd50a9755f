// Arguments of calls in forms without types, which the declared tools give them.
#include "engine/text/output/declared_tools.h"

#include <doctest.h>

#include <string>

#include "engine/text/output/output_reader.h"

namespace infer {
namespace {

/// The tools f and g, whose parameter "a" has the schema.
std::string tools_with(const std::string& schema, const std::string& definitions = "{}") {
  const std::string parameters =
      R"({"type": "object", "properties": {"a": )" + schema + R"(}, "$defs": )" + definitions + "}";
  return R"([{"type": "function", "function": {"name": "f", "parameters": )" + parameters +
         R"(}}, {"name": "g", "parameters": )" + parameters + "}]";
}

unsigned types_of(const std::string& schema, const std::string& definitions = "{}") {
  return DeclaredTools::read(tools_with(schema, definitions)).value().types("f", "a");
}

struct Form {
  std::string_view source;  ///< of a template
  std::string begin, end;   ///< around the value of argument "a" of a call of f
};

const Form kForms[] = {
    {"<tool_call> <function=", "<tool_call>\n<function=f>\n<parameter=a>\n",
     "\n</parameter>\n</function>\n</tool_call>"},
    {"<seed:tool_call>", "<seed:tool_call>\n<function=f>\n<parameter=a>",
     "</parameter>\n</function>\n</seed:tool_call>"},
    {"<tool_call> <arg_key>", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>",
     "</arg_value>\n</tool_call>"},
    {"<minimax:tool_call>", "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">",
     "</parameter>\n</invoke>\n</minimax:tool_call>"},
    {"]<]minimax[>[", "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"f\">]<]minimax[>[<a>",
     "]<]minimax[>[</a>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>"},
    {"<tool_calls> <tool_call>",
     "<tool_calls><tool_call>f<tool_sep>\n<arg_key>a</arg_key>\n<arg_value>",
     "</arg_value>\n</tool_call></tool_calls>"},
};

std::string arguments_of(const Form& form, const std::string& value, const std::string& tools) {
  OutputReader reader(form.source, "", {}, DeclaredTools::read(tools).value());
  std::vector<OutputEvent> events;
  const std::string text = form.begin + value + form.end;
  for (const char byte : text) reader.push(std::string_view(&byte, 1), events);
  reader.finish(events);
  std::string all;
  for (const OutputEvent& event : events) all += event.call.arguments;
  return all;
}

TEST_CASE("types of a schema") {
  constexpr unsigned kNumbers = kNumberType | kIntegerType;
  CHECK(types_of("{}") == kAnyType);
  CHECK(types_of("true") == kAnyType);
  CHECK(types_of(R"({"type": "string"})") == kStringType);
  CHECK(types_of(R"({"type": "number"})") == kNumbers);
  CHECK(types_of(R"({"type": ["string", "null"]})") == (kStringType | kNullType));
  CHECK(types_of(R"({"type": "string", "nullable": true})") == (kStringType | kNullType));
  CHECK(types_of(R"({"type": "str"})") == kAnyType);
  CHECK(types_of(R"({"enum": ["a", 1]})") == (kStringType | kIntegerType));
  CHECK(types_of(R"({"const": true})") == kBooleanType);
  CHECK(types_of(R"({"anyOf": [{"type": "array"}, {"type": "null"}]})") ==
        (kArrayType | kNullType));
  CHECK(types_of(R"({"oneOf": [{"type": "object"}, {}]})") == kAnyType);
  CHECK(types_of(R"({"allOf": [{"type": ["string", "null"]}, {"type": "string"}]})") ==
        kStringType);
  CHECK(types_of(R"({"$ref": "#/$defs/A"})", R"({"A": {"enum": ["x"]}})") == kStringType);
  CHECK(types_of(R"({"$ref": "#/$defs/B"})") == kAnyType);
  CHECK(types_of(R"({"$ref": "#/$defs/A"})", R"({"A": {"$ref": "#/$defs/A"}})") == kAnyType);
  const std::string twice = R"({"anyOf": [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/A"}]})";
  CHECK(types_of(twice, R"({"A": )" + twice + "}") == kAnyType);  // ends
}

TEST_CASE("the declared tools") {
  const auto tools = DeclaredTools::read(tools_with(R"({"type": "integer"})")).value();
  CHECK(tools.known());
  CHECK(tools.has("f"));
  CHECK(tools.types("g", "a") == kIntegerType);
  CHECK(tools.types("g", "b") == kAnyType);
  CHECK(tools.types("h", "a") == kAnyType);
  CHECK_FALSE(tools.has("h"));
  CHECK_FALSE(DeclaredTools::read("").value().known());
  CHECK_FALSE(DeclaredTools::read("[]").value().known());
  CHECK(DeclaredTools::read(R"([{"type": "web_search"}, 3, {"name": "f"}])").value().has("f"));
  for (const char* wrong : {"{}", "[", "3", "tools"}) {
    CHECK(DeclaredTools::read(wrong).error().message() ==
          "tools: expected a JSON array of functions");
  }
}

TEST_CASE("arguments in tags have the types of the schema") {
  const auto check = [](const std::string& schema, const std::string& text,
                        const std::string& value) {
    for (const Form& form : kForms) {
      CAPTURE(form.source);
      CAPTURE(schema);
      CHECK_EQ(arguments_of(form, text, tools_with(schema)), "{\"a\":" + value + "}");
    }
  };
  const std::string text = R"({"type": "string"})";
  check(text, R"({"b": 1})", R"("{\"b\": 1}")");
  check(text, "94107", "\"94107\"");
  check(text, "null", "\"null\"");
  check(text, "True", "\"True\"");
  check(text, "\"q\"", R"("\"q\"")");
  check(R"({"type": "boolean"})", "True", "true");
  check(R"({"type": "boolean"})", "false", "false");
  check(R"({"type": "boolean"})", "perhaps", "\"perhaps\"");
  check(R"({"type": "integer"})", "94107", "94107");
  check(R"({"type": "integer"})", "007", "7");
  check(R"({"type": "integer"})", "5.0", "5.0");
  check(R"({"type": "number"})", "2.5", "2.5");
  check(R"({"type": "null"})", "None", "null");
  check(R"({"type": "array"})", "['a', True, None]", R"(["a",true,null])");
  check(R"({"type": "object"})", "{'a': {'b': 1}}", R"({"a":{"b":1}})");
  check(R"({"type": "object"})", R"({"b": [1]})", R"({"b":[1]})");
  check(R"({"type": "array"})", "[1", "\"[1\"");
  check(R"({"type": ["string", "null"]})", "null", "null");
  check(R"({"type": ["string", "null"]})", "None", "null");
  check(R"({"type": ["string", "null"]})", "nullable", "\"nullable\"");
  check(R"({"type": ["string", "null"]})", "[1]", "\"[1]\"");
  check(R"({"type": ["integer", "string"]})", "12", "\"12\"");
  check(R"({"anyOf": [{"type": "string"}, {"type": "array"}]})", R"(["x"])", R"(["x"])");
  check(R"({"type": ["integer", "boolean"]})", "12", "12");
  check(R"({"type": ["integer", "boolean"]})", "False", "false");
  // As without a schema.
  check("{}", "94107", "94107");
  check("{}", "True", "\"True\"");
  check("{}", R"({"b": 1})", R"({"b":1})");
}

}  // namespace
}  // namespace infer
