// Calls of tools are held to the declared tools, in the forms that models write them in.
#include "engine/text/output/call_grammar.h"

#include <doctest.h>

#include <string>
#include <vector>

#include "tests/text/held_calls.h"

namespace infer::call_grammar_test {
namespace {

using test::Held;
using test::kTools;
using test::read_calls;
using test::vocabulary;

constexpr std::string_view kSchema =
    R"({"type": "object", "properties": {"s": {"type": "string"}}, "required": ["s"]})";

struct Form {
  std::string_view source;  ///< marks that a template has
  std::string_view name;
  std::vector<std::string> controls;
  /// What stands before the arguments {"n": 5} of `f`, and behind.
  std::string before, after;
  bool ends = false;  ///< with the call
};

const std::vector<Form>& forms() {
  static const std::vector<Form> kForms = {
      {"<tool_call>",
       "hermes",
       {},
       "<tool_call>\n{\"name\": \"f\", \"arguments\": ",
       "}\n</tool_call>"},
      {"<tool_call> <response>",
       "ernie",
       {},
       "<tool_call>\n{\"name\": \"f\", \"arguments\": ",
       "}\n</tool_call>"},
      {"<TOOLCALL>",
       "nemotron",
       {},
       "<TOOLCALL>[{\"name\": \"f\", \"arguments\": ",
       "}]</TOOLCALL>"},
      {"<|tool_call|>",
       "granite",
       {"<|tool_call|>"},
       "<|tool_call|>[{\"name\": \"f\", \"arguments\": ",
       "}]",
       true},
      {"<|tool|> <|/tool|>",
       "phi4",
       {"<|tool_call|>", "<|/tool_call|>"},
       "<|tool_call|>[{\"name\": \"f\", \"arguments\": ",
       "}]<|/tool_call|>"},
      {"<|START_ACTION|>",
       "cohere",
       {"<|START_ACTION|>", "<|END_ACTION|>"},
       "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": ",
       "}\n]<|END_ACTION|>"},
      {"<|tools_prefix|>",
       "apertus",
       {"<|tools_prefix|>", "<|tools_suffix|>"},
       "<|tools_prefix|>[{\"f\": ",
       "}]<|tools_suffix|>"},
      {"<tool_calls> [BEGIN FINAL RESPONSE]",
       "apriel",
       {},
       "<tool_calls>[{\"name\": \"f\", \"arguments\": ",
       ", \"id\": \"a-1\"}]</tool_calls>"},
      {"<tool_calls>",
       "jamba",
       {},
       "<tool_calls>[\n  {\"name\": \"f\", \"arguments\": ",
       "}\n]</tool_calls>"},
      {"function call <|role_sep|>",
       "gigachat",
       {"<|role_sep|>", "<|message_sep|>"},
       "function call<|role_sep|>\n{\"name\": \"f\", \"arguments\": ",
       "}<|message_sep|>"},
      {"[TOOL_CALLS]",
       "mistral",
       {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
       "[TOOL_CALLS]f[ARGS]",
       "",
       true},
      {"[TOOL_CALLS]",
       "mistral",
       {"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"},
       "[TOOL_CALLS]f[CALL_ID]abc123456[ARGS]",
       "",
       true},
      {"[TOOL_CALLS]",
       "mistral",
       {"[TOOL_CALLS]"},
       "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": ",
       ", \"id\": \"abc123456\"}]",
       true},
      {"<｜tool▁calls▁begin｜>",
       "deepseek",
       {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"},
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n",
       "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {"<｜tool▁calls▁begin｜>",
       "deepseek",
       {"<｜tool▁sep｜>"},
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>",
       "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
      {"<|tool_calls_section_begin|>",
       "kimi",
       {"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>", "<|tool_call_end|>"},
       "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>",
       "<|tool_call_end|><|tool_calls_section_end|>"},
      {"<|plamo:begin_tool_requests:plamo|>",
       "plamo3",
       {"<|plamo:constrain|>", "<|plamo:msg|>"},
       "<|plamo:begin_tool_requests:plamo|><|plamo:begin_tool_request:plamo|>"
       "<|plamo:begin_tool_name:plamo|>f<|plamo:end_tool_name:plamo|>"
       "<|plamo:begin_tool_arguments:plamo|><|plamo:constrain|>json<|plamo:msg|>",
       "<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>"
       "<|plamo:end_tool_requests:plamo|>"},
      {"<function= <|start_header_id|>", "functionary-v3.1", {}, "<function=f>", "</function>"},
      {"<|start_header_id|> \"parameters\"",
       "llama3",
       {"<|python_tag|>"},
       "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": ",
       "}",
       true},
      {"<|start_header_id|> \"parameters\"",
       "llama3",
       {"<|python_tag|>"},
       "{\"name\": \"f\", \"parameters\": ",
       "}",
       true},
      {"<|start_header_id|> \"parameters\"",
       "llama3",
       {},
       "{\"type\": \"function\", \"name\": \"f\", \"parameters\": ",
       "}",
       true},
  };
  return kForms;
}

}  // namespace

TEST_CASE("a call that has begun is held to a declared tool and its arguments") {
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    CAPTURE(form.before);
    CHECK(find_output_format(form.source).name == form.name);
    const std::string text = form.before + "{\"n\":5}" + form.after;
    Held held(form.source, form.controls);
    CHECK(held.held);
    CHECK(held.options.grammar_start.again == !form.ends);
    const bool bare = form.before.starts_with('{');
    const std::string_view free = bare ? "" : "Free {\"text\"}: <tool </x>\n";
    CHECK(held.takes(free));
    CHECK(held.constraint->is_free());
    CHECK(held.take(text) == text.size());
    CHECK(held.constraint->is_free() == !form.ends);
    CHECK(held.constraint->complete());
    if (!form.ends) {
      CHECK(held.takes("free\n"));
      CHECK(held.take(text) == text.size());
    }
    CHECK(read_calls(form.source, text, held.output) == "{f{\"n\":5}}");
    // Neither another tool, nor other arguments.
    const auto refused = [&](std::string_view arguments) {
      Held other(form.source, form.controls);
      const std::string wrong = form.before + std::string(arguments);
      return other.take(wrong) < wrong.size();
    };
    CHECK(refused("{\"n\": \""));
    CHECK(refused("{\"m\""));
    CHECK(refused("[5"));
    Held other(form.source, form.controls, "", R"([{"name": "other"}])");
    CHECK((other.take(text) == text.size()) == bare);  // a bare call of no tool is text
  }
}

TEST_CASE("a tool that is not strict takes any object") {
  const char* call = "<tool_call>{\"name\": \"any \\\"x\\\"\", \"arguments\": ";
  Held held("<tool_call>", {});
  CHECK(held.takes(call));
  CHECK_FALSE(held.takes("5"));
  CHECK(held.takes("{\"m\": [1, {}]}}</tool_call>"));
  CHECK(held.constraint->is_free());
  CHECK_FALSE(held.options.grammar_start.optional);
  Held loose("<tool_call>", {}, "", R"([{"name": "f", "parameters": {"$ref": "http://no"}}])");
  CHECK(loose.options.grammar_start.optional);
  CHECK(loose.takes("<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>"));
}

TEST_CASE("a strict tool whose schema is refused is named") {
  OutputOptions output;
  output.declared_tools =
      R"([{"name": "f"}, {"name": "odd", "strict": true, "parameters": {"$ref": "http://no"}}])";
  GenerateOptions options;
  REQUIRE(hold_calls("<tool_call>", "", output, options).value());
  Grammars grammars(vocabulary({}));
  const auto made = grammars.constraint(options);
  REQUIRE(!made);
  CHECK(made.error().message().starts_with("the tool odd: "));
}

TEST_CASE("many tools") {
  std::string tools = "[";
  for (int i = 0; i < 1000; ++i) {
    tools += (i == 0 ? "" : ", ") + std::string(R"({"name": "tool_)") + std::to_string(i) +
             R"(", "parameters": {"type": "object", "properties": {}}, "strict": )" +
             (i % 2 == 0 ? "true}" : "false}");
  }
  Held held("<tool_call>", {}, "", tools + "]");
  for (const char* name : {"tool_0", "tool_999", "tool_500"}) {
    CHECK(held.takes(std::string("<tool_call>{\"name\": \"") + name +
                     "\", \"arguments\": {}}</tool_call>"));
  }
  CHECK_FALSE(held.takes("<tool_call>{\"name\": \"tool_1000"));
}

TEST_CASE("marks in reasoning do not begin a call") {
  const char* source = "<tool_call> <think></think>";
  const std::string call = "<tool_call>{\"name\": \"g";
  CHECK(Held(source, {}).take(call) < call.size());
  CHECK(Held(source, {}).takes("<think>\n" + call));
  CHECK(Held(source, {}, "", kTools, "<think>\n").takes(call));
  const std::string later = "hm </think>" + call;
  CHECK(Held(source, {}, "", kTools, "<think>\n").take(later) == later.size() - 1);
}

TEST_CASE("beside a schema the answer is calls or a text") {
  const std::string text = R"({"s": "<tool_call>{\"name\": \"f\"} [TOOL_CALLS]"})";
  for (const Form& form : forms()) {
    CAPTURE(form.name);
    CAPTURE(form.before);
    const std::string call = form.before + "{\"n\":5}" + form.after;
    Held held(form.source, form.controls, kSchema);
    CHECK(held.held);
    CHECK(held.output.constrained);
    CHECK(held.output.or_calls);
    CHECK(held.options.json_schema.empty());
    CHECK_FALSE(held.constraint->is_free());
    CHECK(OutputReader(form.source, "").format() == form.name);
    CHECK(held.take(call) == call.size());
    CHECK(held.constraint->complete());
    CHECK(read_calls(form.source, call, held.output) == "{f{\"n\":5}}");
    Held other(form.source, form.controls, kSchema);
    CHECK(other.takes(text));
    CHECK(other.constraint->must_end());
    CHECK(read_calls(form.source, text, other.output) == text);
    CHECK(Held(form.source, form.controls, kSchema).take("Free") == 0);
    CHECK(Held(form.source, form.controls, kSchema).take(form.before + "{\"x") <
          form.before.size() + 3);
  }
}

TEST_CASE("beside a schema, forms of literals have sections as well") {
  struct Row {
    const char* source;
    const char* call;
    const char* read;
  };
  const Row rows[] = {{"<|tool_call>", "<|tool_call>call:f{n:5}<tool_call|>", "{f{\"n\":5}}"},
                      {"List of tools: <|im_start|>",
                       "<|tool_call_start|>[f(n=5)]<|tool_call_end|>", "{f{\"n\":5}}"}};
  for (const Row& row : rows) {
    CAPTURE(row.source);
    Held held(row.source,
              {"<|tool_call>", "<tool_call|>", "<|tool_call_start|>", "<|tool_call_end|>"},
              kSchema);
    CHECK(held.takes(row.call));
    CHECK(held.constraint->complete());
    CHECK(read_calls(row.source, row.call, held.output) == row.read);
    CHECK(held.takes("\n"));
    CHECK(held.takes(row.call));
    CHECK(read_calls(row.source, std::string(row.call) + "\n" + row.call, held.output) ==
          std::string(row.read) + row.read);
    CHECK(Held(row.source, {}, kSchema).takes(R"({"s": "<tool_call>"})"));
    // Without a schema they are as they were.
    OutputOptions output;
    output.declared_tools = kTools;
    GenerateOptions options;
    CHECK_FALSE(hold_calls(row.source, "", output, options).value());
    CHECK((options.grammar.empty() && options.grammar_start.marks.empty()));
  }
}

TEST_CASE("forms of messages: the schema holds the one for the user") {
  const char* harmony = "<|channel|> <|message|>";
  const std::vector<std::string> controls = {"<|channel|>", "<|message|>", "<|constrain|>",
                                             "<|start|>", "<|endx|>"};
  for (const char* header :
       {"<|channel|>final<|message|>", "<|channel|>final <|constrain|>json<|message|>"}) {
    Held held(harmony, controls, kSchema);
    CHECK(held.held);
    CHECK_FALSE(held.output.constrained);
    CHECK(held.takes("<|channel|>analysis<|message|>Hm.<|start|>assistant"));
    CHECK(held.constraint->is_free());
    CHECK(held.takes(header));
    CHECK_FALSE(held.takes("Hm"));
    CHECK(held.takes("{\"s\": \"x\"}"));
    CHECK(held.constraint->must_end());
  }
  Held call(harmony, controls, kSchema);
  CHECK(call.takes("<|channel|>commentary to=functions.f<|message|>{\"n\": 5}"));
  CHECK(call.constraint->complete());
  Held functionary(">>>all", {}, kSchema);
  CHECK(functionary.takes("all\n{\"s\": \"x\"}"));
  CHECK(functionary.constraint->must_end());
  Held other(">>>all", {}, kSchema);
  CHECK(other.takes("f\n{\"n\": 5}>>>all\n"));
  CHECK_FALSE(other.takes("x"));
}

TEST_CASE("a format without calls has no grammar of them") {
  OutputOptions output;
  output.declared_tools = kTools;
  GenerateOptions options;
  options.json_schema = kSchema;
  CHECK_FALSE(hold_calls("", "", output, options).value());
  CHECK(options.json_schema == kSchema);
  CHECK_FALSE(output.constrained);
  output.declared_tools = "[]";
  CHECK_FALSE(hold_calls("<tool_call>", "", output, options).value());
  output.declared_tools = "{";
  CHECK_FALSE(hold_calls("<tool_call>", "", output, options));
}

TEST_CASE("arguments null are an object without members") {
  OutputOptions options;
  options.declared_tools = kTools;
  CHECK(read_calls("<tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>",
                   options) == "{f{}}");
  CHECK(read_calls("[TOOL_CALLS]", "[TOOL_CALLS]f[ARGS]{}", options) == "{f{}}");
}

}  // namespace infer::call_grammar_test
