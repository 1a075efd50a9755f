// Calls whose arguments stand between tags are held to the declared tools.
#include <doctest.h>

#include <string>
#include <vector>

#include "tests/text/held_calls.h"

namespace infer::tagged_calls_test {
namespace {

using test::Held;
using test::read_calls;

/// `f` is strict, `g` is not.
constexpr std::string_view kTools = R"([
  {"type": "function", "function": {"name": "f", "strict": true, "parameters": {
    "type": "object",
    "properties": {
      "n": {"type": "integer"},
      "text": {"type": "string"},
      "kind": {"$ref": "#/$defs/Kind"},
      "point": {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "required": ["x"],
                "additionalProperties": false},
      "maybe": {"anyOf": [{"enum": ["yes", "no"]}, {"type": "null"}]}},
    "required": ["n", "text"],
    "additionalProperties": false,
    "$defs": {"Kind": {"enum": ["red one", "blue"]}, "X": {"type": "boolean"}}}}},
  {"type": "function", "function": {"name": "g", "parameters": {"type": "object"}}}])";
constexpr std::string_view kSchema =
    R"({"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]})";

struct Form {
  std::string_view source;  ///< marks that a template has
  std::string_view name;
  std::vector<std::string> controls;
  std::string before, named, after;   ///< around the name, and behind the arguments
  std::string key, text, json, ends;  ///< around the key and value of an argument

  std::string argument(std::string_view name, std::string_view value, bool is_text) const {
    return key + std::string(name) + (is_text ? text : json) + std::string(value) + ends;
  }
  std::string call(std::string_view name, std::string_view arguments) const {
    return before + std::string(name) + named + std::string(arguments) + after;
  }
};

const std::vector<Form>& forms() {
  static const std::vector<Form> kForms = {
      {"<tool_call> <function=",
       "qwen-xml",
       {},
       "<tool_call>\n<function=",
       ">\n",
       "</function>\n</tool_call>",
       "<parameter=",
       ">\n",
       ">\n",
       "\n</parameter>\n"},
      {"<tool_call> <function=",
       "qwen-xml",
       {"<tool_call>", "</tool_call>"},
       "<function=",
       ">\n",
       "</function>",
       "<parameter=",
       ">",
       ">",
       "</parameter>\n"},
      {"<seed:tool_call>",
       "seed",
       {"<seed:tool_call>", "</seed:tool_call>"},
       "<seed:tool_call>\n<function=",
       ">\n",
       "</function>\n</seed:tool_call>",
       "<parameter=",
       ">",
       ">",
       "</parameter>\n"},
      {"<tool_call> <arg_key>",
       "glm",
       {"<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"},
       "<tool_call>",
       "\n",
       "</tool_call>",
       "<arg_key>",
       "</arg_key>\n<arg_value>",
       "</arg_key>\n<arg_value>",
       "</arg_value>\n"},
      {"<tool_call> <arg_key>",
       "glm",
       {},
       "<tool_call>",
       "",
       "</tool_call>",
       "<arg_key>",
       "</arg_key><arg_value>",
       "</arg_key><arg_value>",
       "</arg_value>"},
      {"':opensource' <tool_calls{}>",
       "hunyuan-v3",
       {},
       "<tool_calls:opensource>\n<tool_call:opensource>",
       "<tool_sep:opensource>\n",
       "</tool_call:opensource>\n</tool_calls:opensource>",
       "<arg_key:opensource>",
       "</arg_key:opensource>\n<arg_value:opensource>",
       "</arg_key:opensource>\n<arg_value:opensource>",
       "</arg_value:opensource>\n"},
      {"<minimax:tool_call>",
       "minimax",
       {"<minimax:tool_call>", "</minimax:tool_call>"},
       "<minimax:tool_call>\n<invoke name=\"",
       "\">\n",
       "</invoke>\n</minimax:tool_call>",
       "<parameter name=\"",
       "\">",
       "\">",
       "</parameter>\n"},
      {"｜DSML｜",
       "dsml",
       {"｜DSML｜"},
       "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"",
       "\">\n",
       "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
       "<｜DSML｜parameter name=\"",
       "\" string=\"true\">",
       "\" string=\"false\">",
       "</｜DSML｜parameter>\n"},
  };
  return kForms;
}

std::string arguments_of(const Form& form) {
  return form.argument("n", "-5", false) + form.argument("text", "a < b: \"{\" </x>", true) +
         form.argument("kind", "red one", true) + form.argument("point", "{\"x\": true}", false) +
         form.argument("maybe", "null", false);
}
constexpr std::string_view kRead =
    R"({f{"n":-5,"text":"a < b: \"{\" </x>","kind":"red one","point":{"x":true},"maybe":null}})";

}  // namespace

TEST_CASE("a tagged call that has begun is held to a declared tool and its arguments") {
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    CAPTURE(form.before);
    CHECK(find_output_format(form.source).name == form.name);
    const std::string text = form.call("f", arguments_of(form));
    Held held(form.source, form.controls, "", kTools);
    REQUIRE(held.held);
    CHECK_FALSE(held.options.grammar_start.optional);
    CHECK(held.takes("Free {\"text\"}: <tool </x>\n"));
    CHECK(held.take(text) == text.size());
    CHECK(held.constraint->is_free());
    CHECK(read_calls(form.source, text, held.output) == kRead);
    CHECK(held.take(text) == text.size());  // another one
    const auto taken = [&](std::string_view name, const std::string& arguments) {
      Held other(form.source, form.controls, "", kTools);
      return other.takes(form.call(name, arguments));
    };
    const std::string n = form.argument("n", "7", false);
    const std::string free = form.argument("text", "", true);
    CHECK(taken("f", n + free));
    CHECK(taken("f", n + free + form.argument("maybe", "no", true)));
    CHECK(taken("f", n + free + form.argument("maybe", "None", false)) == (form.text == form.json));
    CHECK_FALSE(taken("h", n + free));
    CHECK_FALSE(taken("f", n));
    CHECK_FALSE(taken("f", free));
    CHECK_FALSE(taken("f", form.argument("n", "7.5", false) + free));
    CHECK_FALSE(taken("f", form.argument("n", "x", true) + free));
    CHECK_FALSE(taken("f", n + free + form.argument("kind", "red", true)));
    CHECK_FALSE(taken("f", n + free + form.argument("maybe", "perhaps", true)));
    CHECK_FALSE(taken("f", n + free + form.argument("point", "{\"x\": 1}", false)));
    CHECK_FALSE(taken("f", n + free + form.argument("other", "1", false)));
    // A tool that is not strict takes all that keeps to the form.
    CHECK(taken("g", form.argument("any key", "x", true) + form.argument("n", "[1]", false)));
    CHECK(taken("g", ""));
    CHECK_FALSE(taken("g", "{\"n\": 5}"));
  }
}

TEST_CASE("beside a schema the answer is tagged calls or a text") {
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    CAPTURE(form.before);
    const std::string call = form.call("f", arguments_of(form));
    Held held(form.source, form.controls, kSchema, kTools);
    CHECK(held.take(call) == call.size());
    CHECK(held.constraint->complete());
    CHECK(read_calls(form.source, call, held.output) == kRead);
    Held other(form.source, form.controls, kSchema, kTools);
    CHECK(other.takes(R"({"s": "<tool_call>"})"));
    CHECK(other.constraint->must_end());
    CHECK_FALSE(Held(form.source, form.controls, kSchema, kTools).takes(form.call("h", "")));
  }
}

TEST_CASE("values that would be read as others are not written") {
  const std::string_view tools = R"([{"name": "f", "strict": true, "parameters": {
    "properties": {"a": {"enum": ["1", 2, null, "null", "x"]}, "b": {"const": 3},
                   "c": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "d": false},
    "required": ["a", "more"]}}])";
  const auto call = [](std::string_view arguments) {
    return "<tool_call>f" + std::string(arguments) + "</tool_call>";
  };
  const auto argument = [](std::string_view key, std::string_view value) {
    return "<arg_key>" + std::string(key) + "</arg_key><arg_value>" + std::string(value) +
           "</arg_value>";
  };
  const std::string more = argument("more", "any");
  const auto taken = [&](const std::string& arguments) {
    return Held("<tool_call> <arg_key>", {}, "", tools).takes(call(arguments));
  };
  for (const char* value : {"1", "null", "x"}) CHECK(taken(argument("a", value) + more));
  CHECK_FALSE(taken(argument("a", "2") + more));
  CHECK_FALSE(taken(argument("a", "x")));
  CHECK(taken(argument("a", "x") + argument("b", "3") + argument("c", "text") + more));
  CHECK_FALSE(taken(argument("a", "x") + argument("b", "4") + more));
  CHECK_FALSE(taken(argument("a", "x") + argument("d", "4") + more));
}

TEST_CASE("a strict tool that tags cannot hold is named") {
  const auto message = [](std::string_view tool) {
    OutputOptions output;
    output.declared_tools = "[" + std::string(tool) + "]";
    GenerateOptions options;
    const Result<bool> held = hold_calls("<tool_call> <function=", "", output, options);
    if (!held) return held.error().message();
    Grammars grammars(test::vocabulary({}));
    const auto made = grammars.constraint(options);
    return made ? std::string() : made.error().message();
  };
  CHECK(message(R"({"name": "odd", "strict": true, "parameters": {"anyOf": [{}]}})") ==
        "the tool odd: 'anyOf' of all parameters cannot be kept by calls of this model; use "
        "'properties' and 'required'");
  CHECK(message(R"({"name": "odd", "strict": true, "parameters": {
    "properties": {"a": {"enum": []}}, "required": ["a"]}})")
            .starts_with("the tool odd: "));
  CHECK(message(R"({"name": "odd", "strict": true, "parameters": {
    "properties": {"a": {"type": "array", "contains": {}, "maxContains": 1}}}})")
            .starts_with("the tool odd: the parameter a: "));
  CHECK(message(R"({"name": "odd", "parameters": {"anyOf": [{}]}})").empty());
}

TEST_CASE("schemas that grow without end in tags are refused at once") {
  std::string parts, properties;
  for (int i = 0; i < 20; ++i) parts += std::string(i == 0 ? "" : ",") + R"({"$ref": "#/$defs/A"})";
  for (int i = 0; i < 3000; ++i) {
    properties += (i == 0 ? "\"p" : ",\"p") + std::to_string(i) + R"(": {"$ref": "#/$defs/B"})";
  }
  const std::string large(2000, 'x');
  for (const std::string& parameters :
       {R"({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"anyOf": [)" + parts +
            "]}}}",
        "{\"properties\": {" + properties + R"(}, "$defs": {"B": {"type": "array", "title": ")" +
            large + "\"}}}"}) {
    OutputOptions output;
    output.declared_tools =
        R"([{"name": "odd", "strict": true, "parameters": )" + parameters + "}]";
    GenerateOptions options;
    const Result<bool> held = hold_calls("<tool_call> <arg_key>", "", output, options);
    REQUIRE(!held);
    CHECK(held.error().code() == StatusCode::unsupported);
    CHECK(held.error().message().starts_with("the tool odd: the schemas of the strict tools are"));
  }
}

}  // namespace infer::tagged_calls_test
