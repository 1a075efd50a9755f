// Generated text taken apart, whole and divided at every place.
#include "engine/text/output/output_reader.h"

#include <doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support.h"

namespace infer {
namespace {

struct Output {
  std::string reasoning;
  std::string content;
  std::string calls;  // id|name|arguments; of each
  bool operator==(const Output&) const = default;
};

Output read(std::string_view source, std::string_view prompt,
            const std::vector<std::string_view>& pieces, const OutputOptions& options = {}) {
  OutputReader reader(source, prompt, options, DeclaredTools::read(options.declared_tools).value());
  std::vector<OutputEvent> events;
  for (const std::string_view piece : pieces) reader.push(piece, events);
  reader.finish(events);
  Output out;
  for (const OutputEvent& event : events) {
    if (event.kind == OutputEvent::Kind::reasoning) out.reasoning += event.text;
    if (event.kind == OutputEvent::Kind::content) out.content += event.text;
    if (event.kind == OutputEvent::Kind::tool_call) {
      out.calls += event.call.id + "|" + event.call.name + "|" + event.call.arguments + ";";
    }
  }
  return out;
}

/// The output in one piece, and the same divided at every place and into single bytes.
Output read(std::string_view source, std::string_view text, std::string_view prompt = "",
            const OutputOptions& options = {}) {
  const Output whole = read(source, prompt, std::vector{text}, options);
  std::vector<std::string_view> bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const Output divided =
        read(source, prompt, std::vector{text.substr(0, i), text.substr(i)}, options);
    CHECK_MESSAGE(divided == whole, "divided at ", i, " of ", text);
    bytes.push_back(text.substr(i, 1));
  }
  CHECK(read(source, prompt, bytes, options) == whole);
  return whole;
}

void check(const Output& got, const std::string& reasoning, const std::string& content,
           const std::string& calls) {
  CHECK_EQ(got.reasoning, reasoning);
  CHECK_EQ(got.content, content);
  CHECK_EQ(got.calls, calls);
}

/// The least time of several for reading `text` in pieces of 4 bytes.
double reading_time(std::string_view source, const std::string& text) {
  double least = 1e9;
  for (int run = 0; run < 3; ++run) {
    const double begin = test::thread_seconds();
    OutputReader reader(source, "");
    std::vector<OutputEvent> events;
    for (size_t at = 0; at < text.size(); at += 4) {
      reader.push(std::string_view(text).substr(at, 4), events);
    }
    reader.finish(events);
    least = std::min(least, test::thread_seconds() - begin);
  }
  return least;
}

constexpr std::string_view kHermes = "<tool_call> <think>";
constexpr std::string_view kWeather = "|get_weather|{\"city\":\"Zürich\",\"days\":3};";
constexpr std::string_view kSpaced = "|get_weather|{\"city\": \"Zürich\", \"days\": 3};";

TEST_CASE("plain text comes as it is") {
  check(read("", " Hello <think> {\"a\": 1}\n\n"), "", " Hello <think> {\"a\": 1}\n\n", "");
  check(read(kHermes, "  a < b <tool <thin\n"), "", "  a < b <tool <thin\n", "");
  check(read(kHermes, ""), "", "", "");
}

TEST_CASE("reasoning") {
  check(read(kHermes, "<think>\nhm\n\nso\n</think>\n\nDone.\n"), "hm\n\nso", "Done.\n", "");
  check(read(kHermes, "hm\n</think>\n\nDone.", "<|im_start|>assistant\n<think>\n"), "hm", "Done.",
        "");
  check(read(kHermes, "Done.", "<think>\n\n</think>\n\n"), "", "Done.", "");
  check(read(kHermes, "<think>never closed "), "never closed", "", "");
  check(read("[TOOL_CALLS][THINK]", "[THINK]hm[/THINK]Done."), "hm", "Done.", "");
  check(read("<seed:think>", "<seed:think>hm</seed:think>Done."), "hm", "Done.", "");
  check(read("<|START_THINKING|>", "<|START_THINKING|>hm<|END_THINKING|>Done."), "hm", "Done.", "");
  check(read("<|inner_prefix|>", "<|inner_prefix|>hm<|inner_suffix|>Done."), "hm", "Done.", "");
}

TEST_CASE("reasoning is at the beginning of an answer alone") {
  check(read(kHermes, "say <think> in text </think>"), "", "say <think> in text </think>", "");
  check(read(kHermes, "<think>hm</think>A <think>b</think>"), "hm", "A <think>b</think>", "");
  check(read(kHermes, "hm</think>\n\nA <think> b", "<think>\n"), "hm", "A <think> b", "");
  check(read("<tool_call> <think>",
             "A <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call><think>b"),
        "", "A <think>b", "|f|{};");
}

TEST_CASE("what is held to a schema is content") {
  const OutputOptions held{.constrained = true};
  const std::string json = R"({"html": "use <think> here", "b": "<tool_call>{}</tool_call>"})";
  check(read(kHermes, json, "", held), "", json, "");
  // Only with reasoning that the prompt began, and that is never closed twice.
  check(read(kHermes, "hm\n</think>\n" + json + "</think>", "<think>\n", held), "hm",
        json + "</think>", "");
  const std::string call = R"({"name": "f", "parameters": {"a": 1}})";
  constexpr std::string_view kLlama = "<|start_header_id|> \"parameters\"";
  check(read(kLlama, call, "", held), "", call, "");
  check(read(kLlama, call), "", "", "|f|{\"a\":1};");
  check(read(kLlama, call, "", {.tools = false}), "", call, "");
  constexpr std::string_view kHarmony = "<|channel|> <|message|>";
  check(read(kHarmony, json, "<|start|>assistant<|channel|>final<|message|>", held), "", json, "");
}

TEST_CASE("no calls are taken if none are wanted") {
  const OutputOptions none{.calls = false};
  const std::string call = "Hm.\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  check(read(kHermes, "<think>a</think>" + call, "", none), "a", call, "");
  const std::string bare = R"({"name": "f", "parameters": {"a": 1}})";
  check(read("<|start_header_id|> \"parameters\"", bare, "", none), "", bare, "");
  check(read(">>>all", "f\n{}", "", none), "", "f\n{}", "");
  check(read("<|channel|> <|message|>",
             "<|channel|>analysis<|message|>a<|end|><|channel|>commentary to=f<|message|>{}", "",
             none),
        "a", "<|channel|>commentary to=f<|message|>{}", "");
}

TEST_CASE("an answer that goes on") {
  const OutputOptions goes_on{.continues = true};
  check(read(kHermes, "<think> is a mark", "", goes_on), "", "<think> is a mark", "");
  check(read("<|channel|> <|message|>", "and so on.<|return|>", "", goes_on), "", "and so on.", "");
  constexpr std::string_view kLlama = "<|start_header_id|> \"parameters\"";
  const std::string call = R"({"name": "f", "parameters": {"a": 1}})";
  check(read(kLlama, call, "", goes_on), "", call, "");
}

TEST_CASE("a prompt is led to the answer itself") {
  CHECK(lead_to_answer(kHermes, "assistant\n<think>\n") == "assistant\n<think>\n\n</think>\n\n");
  CHECK(lead_to_answer(kHermes, "assistant\n<think>") == "assistant\n<think>\n\n</think>\n\n");
  for (const std::string_view prompt : {"assistant\n", "<think>\n\n</think>\n\n", ""}) {
    CHECK(lead_to_answer(kHermes, prompt) == prompt);
    CHECK(lead_to_answer("", prompt) == prompt);
  }
  CHECK(lead_to_answer("<|channel|> <|message|>", "<|start|>assistant") ==
        "<|start|>assistant<|channel|>final<|message|>");
  CHECK(lead_to_answer(">>>all", "<|end_header_id|>\n\n>>>") == "<|end_header_id|>\n\n>>>all\n");
}

TEST_CASE("hermes") {
  const std::string call =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zürich\", \"days\": "
      "3}}\n</tool_call>";
  check(read(kHermes, call), "", "", std::string(kWeather));
  check(read(kHermes, "<think>\nhm\n</think>\n\nI look.\n" + call + "\n" + call), "hm", "I look.",
        std::string(kWeather) + std::string(kWeather));
  check(read(kHermes, "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}"), "", "",
        "|f|{\"a\":1};");
  const std::string broken =
      "I look.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {]}\n</tool_call>\nSo.";
  check(read(kHermes, broken), "", broken, "");
  const std::string cut = "<tool_call>\n{\"name\": \"f\", \"argu";
  check(read(kHermes, cut), "", cut, "");
  const std::string other = "<tool_call>{\"a\": 1}</tool_call>";
  check(read(kHermes, other), "", other, "");
}

TEST_CASE("llama3") {
  constexpr std::string_view kSource = "<|start_header_id|> \"parameters\"";
  const std::string call =
      "{\"name\": \"get_weather\", \"parameters\": {\"city\": \"Zürich\", \"days\": 3}}";
  check(read(kSource, call), "", "", std::string(kWeather));
  check(read(kSource, "<|python_tag|>" + call), "", "", std::string(kWeather));
  check(read(kSource, "{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}"), "", "",
        "|f|{};");
  const OutputOptions declared{.declared_tools = R"([{"name": "get_weather"}])"};
  const std::string person = "{\"name\": \"Bob\", \"parameters\": {}}";
  check(read(kSource, call, "", declared), "", "", std::string(kWeather));
  check(read(kSource, person, "", declared), "", person, "");
  check(read(kSource, "<|python_tag|>" + person, "", declared), "", "", "|Bob|{};");
  check(read(kSource, "{\"a\": 1}"), "", "{\"a\": 1}", "");
  check(read(kSource, "{\"name\": \"x\"}"), "", "{\"name\": \"x\"}", "");
  check(read(kSource, "So: " + call), "", "So: " + call, "");
  check(read(kSource, "<|python_tag|>print(1)"), "", "<|python_tag|>print(1)", "");
}

TEST_CASE("mistral") {
  constexpr std::string_view kSource = "[TOOL_CALLS]";
  check(read(kSource,
             "[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Zürich\", "
             "\"days\": 3}, \"id\": \"call00001\"}]"),
        "", "", "call00001" + std::string(kWeather));
  check(read(kSource, "[TOOL_CALLS]get_weather[ARGS]{\"city\": \"Zürich\", \"days\": 3}"), "", "",
        std::string(kSpaced));
  check(read(kSource, "Wait.[TOOL_CALLS]a[CALL_ID]7[ARGS]{}[TOOL_CALLS]b[ARGS]{\"x\": \"}\"}"), "",
        "Wait.", "7|a|{};|b|{\"x\": \"}\"};");
  check(read(kSource, "[TOOL_CALLS]a[ARGS]{"), "", "[TOOL_CALLS]a[ARGS]{", "");
}

TEST_CASE("deepseek") {
  constexpr std::string_view kSource = "<｜tool▁calls▁begin｜> </think>";
  check(read(kSource,
             "hm</"
             "think>Wait.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_"
             "weather\n```json\n{\"city\": \"Zürich\", \"days\": "
             "3}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
             "<think>\n"),
        "hm", "Wait.", std::string(kSpaced));
  check(read(kSource,
             "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>a<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
             "｜tool▁call▁begin｜>b<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
        "", "", "|a|{};|b|{};");
  const std::string broken =
      "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>a<｜tool▁sep｜>{<｜tool▁call▁end｜><"
      "｜tool▁calls▁end｜>";
  check(read(kSource, broken), "", broken, "");
  const std::string dsml =
      "\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter "
      "name=\"city\" string=\"true\">Zürich</｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" "
      "string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>";
  check(read("｜DSML｜", "I look." + dsml), "", "I look.", std::string(kWeather));
  check(read("｜DSML｜",
             "<｜DSML｜tool_calls>\n<｜DSML｜invoke "
             "name=\"f\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"),
        "", "", "|f|{};");
}

TEST_CASE("harmony") {
  constexpr std::string_view kSource = "<|channel|> <|message|>";
  check(read(kSource,
             "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>"
             "Done.<|return|>"),
        "hm", "Done.", "");
  check(read(kSource,
             "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>commentary "
             "to=functions.get_weather <|constrain|>json<|message|>{\"city\": \"Zürich\", "
             "\"days\": 3}<|call|>"),
        "hm", "", std::string(kSpaced));
  check(read(kSource,
             " to=functions.get_weather<|channel|>commentary json<|message|>{\"city\": \"Zürich\", "
             "\"days\": 3}"),
        "", "", std::string(kSpaced));
  check(read(kSource, "<|channel|>commentary<|message|>I look.<|end|>"), "", "I look.", "");
  check(read(kSource, "no format at all"), "", "no format at all", "");
  const std::string broken = "<|channel|>commentary to=functions.f<|message|>{<|call|>";
  check(read(kSource, broken), "", broken, "");
}

TEST_CASE("other forms") {
  check(read("<tool_call> <function= <think>",
             "hm\n</think>\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nZürich\n</"
             "parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
             "<think>\n"),
        "hm", "", std::string(kWeather));
  // Without what stands around it, if it is a call of a tool that there is.
  OutputOptions declared;
  declared.declared_tools =
      R"([{"function": {"name": "get_weather", "parameters": {"properties": {
          "city": {"type": "string"}, "days": {"type": "integer"}}}}}])";
  constexpr std::string_view kOpen =
      "<function=get_weather>\n<parameter=city>\nZürich\n</parameter>\n<parameter=days>\n3\n"
      "</parameter>\n</function>";
  for (const char* end : {"", "\n", "\n</tool_call>"}) {
    check(read("<tool_call> <function=", std::string(kOpen) + end, "", declared), "", "",
          std::string(kWeather));
  }
  check(read("<tool_call> <function=", "I look.\n" + std::string(kOpen), "", declared), "",
        "I look.", std::string(kWeather));
  check(read("<tool_call> <function=", kOpen), "", std::string(kOpen), "");
  check(read("<tool_call> <function=", "<function=f>\n</function>", "", declared), "",
        "<function=f>\n</function>", "");
  check(read("<seed:tool_call>",
             "<seed:tool_call>\n<function=get_weather>\n<parameter=city>Zürich</"
             "parameter>\n<parameter=days>3</parameter>\n</function>\n</seed:tool_call>"),
        "", "", std::string(kWeather));
  check(read("<tool_call> <arg_key>",
             "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Zürich</"
             "arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"),
        "", "", std::string(kWeather));
  check(read("<|tool_calls_section_begin|>",
             "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_"
             "begin|>{}<|tool_call_end|><|tool_calls_section_end|>"),
        "", "", "functions.f:0|f|{};");
  const auto plamo = [](std::string text) {  // { and } are what stands around marks
    for (size_t at = 0; (at = text.find_first_of("{}", at)) != std::string::npos; ++at) {
      text.replace(at, 1, text[at] == '{' ? "<|plamo:" : ":plamo|>");
    }
    return text;
  };
  check(read(plamo("{begin_tool_requests} {begin_think}"),
             plamo("{begin_think}hm{end_think}I look.{begin_tool_requests}{begin_tool_request}"
                   "{begin_tool_name}f{end_tool_name}{begin_tool_arguments}") +
                 "<|plamo:constrain|>json<|plamo:msg|>{\"a\": [1]}" +
                 plamo("{end_tool_arguments}{end_tool_request}\n{begin_tool_request}"
                       "{begin_tool_name}g{end_tool_name}{begin_tool_arguments}") +
                 "{}" + plamo("{end_tool_arguments}{end_tool_request}{end_tool_requests}")),
        "hm", "I look.", "|f|{\"a\": [1]};|g|{};");
  check(read("<|tool_call|>", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]"), "", "",
        "|f|{};");
}

TEST_CASE("gemma4") {
  constexpr std::string_view kSource = "<|tool_call> '<|channel>thought\\n<channel|>'";
  check(read(kSource,
             "<|channel>thought\nhm<channel|>I look.<|tool_call>call:get_weather{city:<|\"|>Zürich"
             "<|\"|>,days:3}<tool_call|>"),
        "hm", "I look.", std::string(kWeather));
  check(read(kSource, "Done.", "<|channel>thought\n<channel|>"), "", "Done.", "");
  check(read(kSource, "hm<channel|>Done.", "<|turn>model\n<|channel>thought\n"), "hm", "Done.", "");
  check(read(kSource,
             "<|tool_call>call:a{}<tool_call|><|tool_call>call:b{x:[1,-2.5,true,null],y:{<|\"|>k\"<"
             "|\"|>:<|\"|>{}, \\n<|\"|>}}<tool_call|>"),
        "", "", R"(|a|{};|b|{"x":[1,-2.5,true,null],"y":{"k\"":"{}, \\n"}};)");
  for (const char* broken :
       {"<|tool_call>call:a{x:}<tool_call|>", "<|tool_call>call:a{x:1<tool_call|>",
        "<|tool_call>call:{}<tool_call|>", "<|tool_call>call:a{x:<|\"|>b}<tool_call|>",
        "<|tool_call>call:a{x:1 y:2}<tool_call|>", "<|tool_call>call:a{x:1e999}<tool_call|>"}) {
    check(read(kSource, broken), "", broken, "");
  }
  check(read("<start_function_call>",
             "<start_function_call>call:get_weather{city:<escape>Zürich<escape>,days:3}<end_"
             "function_call>"),
        "", "", std::string(kWeather));
}

TEST_CASE("lfm2, olmo3 and llama4: calls as in Python") {
  constexpr std::string_view kSource = "List of tools: <|im_start|> </think>";
  const auto call = [](std::string_view text) {
    return "<|tool_call_start|>" + std::string(text) + "<|tool_call_end|>";
  };
  check(
      read(kSource, "<think>hm</think>" + call("[get_weather(city=\"Zürich\", days=3)]") + "Wait."),
      "hm", "Wait.", std::string(kWeather));
  check(
      read(
          kSource,
          call(
              R"([a(), b.c(x='it\'s "so"\n\x41\u00e9\q', y=[1, (2.5, -3), {'k': None}], z=True,)])")),
      "", "", R"(|a|{};|b.c|{"x":"it's \"so\"\nAé\\q","y":[1,[2.5,-3],{"k":null}],"z":true};)");
  check(read(kSource,
             call(R"([{"name": "get_weather", "arguments": {"city": "Zürich", "days": 3}}])")),
        "", "", std::string(kWeather));
  check(read(kSource, call(R"([f(n=1_000, e=1e3, d=.5, big=12345678901234567890)])")), "", "",
        R"(|f|{"n":1000,"e":1000.0,"d":0.5,"big":12345678901234567890};)");
  for (const char* broken :
       {"[f(3)]", "[f(x=3]", "[f(x=y)]", "f", "[]", "[f(x='a)]", "[f(x=1 y=2)]"}) {
    check(read(kSource, call(broken)), "", call(broken), "");
  }
  const std::string deep = call("[f(x=" + std::string(100'000, '[') + ")]");
  OutputReader reader(kSource, "");
  std::vector<OutputEvent> events;
  reader.push(deep, events);
  REQUIRE(events.size() >= 1);
  CHECK(events[0].kind == OutputEvent::Kind::content);
  check(read("<function_calls>",
             "<function_calls>\nget_weather(city=\"Zürich\", days=3)\nf()\n</function_calls>"),
        "", "", std::string(kWeather) + "|f|{};");
  constexpr std::string_view kLlama4 = "<|header_start|> \"parameters\"";
  check(read(kLlama4, "[get_weather(city=\"Zürich\", days=3)]"), "", "", std::string(kWeather));
  check(read(kLlama4, "{\"name\": \"f\", \"parameters\": {}}"), "", "", "|f|{};");
  check(read(kLlama4, "<|python_start|>[f()]<|python_end|>"), "", "", "|f|{};");
  check(read(kLlama4, "[a link](to)"), "", "[a link](to)", "");
}

TEST_CASE("cohere and apertus") {
  constexpr std::string_view kCohere = "<|START_ACTION|> <|START_THINKING|>";
  const std::string action =
      "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", "
      "\"parameters\": {\"city\": \"Zürich\", \"days\": 3}}\n]<|END_ACTION|>";
  check(read(kCohere, "<|START_THINKING|>hm<|END_THINKING|>" + action), "hm", "",
        "0" + std::string(kWeather));
  check(read(kCohere, "hm<|END_THINKING|><|START_RESPONSE|>Done.<|END_RESPONSE|>",
             "<|CHATBOT_TOKEN|><|START_THINKING|>"),
        "hm", "Done.", "");
  check(read(kCohere, "<|START_TEXT|>Done.<|END_TEXT|>", "<|START_THINKING|><|END_THINKING|>"), "",
        "Done.", "");
  constexpr std::string_view kApertus = "<|tools_prefix|> <|inner_prefix|>";
  const std::string call =
      "<|tools_prefix|>[{\"get_weather\": {\"city\": \"Zürich\", \"days\": 3}}]<|tools_suffix|>";
  check(read(kApertus, "I look." + call), "", "I look.", std::string(kWeather));
  check(read(kApertus, "<|inner_prefix|>hm" + call + " so<|inner_suffix|>Done."), "hm so", "Done.",
        std::string(kWeather));
  const std::string broken = "<|tools_prefix|>[{\"a\": {}, \"b\": {}}]<|tools_suffix|>";
  check(read(kApertus, broken), "", broken, "");
}

TEST_CASE("functionary") {
  constexpr std::string_view kOld = "<function= <|start_header_id|>";
  check(read(kOld, "<function=get_weather>{\"city\": \"Zürich\", \"days\": 3}</function>"), "", "",
        std::string(kSpaced));
  check(read(kOld, "<|python_tag|>print(\"a\")"), "", "",
        "|python|{\"code\":\"print(\\\"a\\\")\"};");
  check(read(kOld, "<function=f>{</function>"), "", "<function=f>{</function>", "");
  constexpr std::string_view kNew = ">>>all";
  const std::string call = "get_weather\n{\"city\": \"Zürich\", \"days\": 3}";
  check(read(kNew, "all\nDone.", "assistant\n\n>>>"), "", "Done.", "");
  check(read(kNew, call), "", "", std::string(kSpaced));
  check(read(kNew, "all\nI look.>>>" + call + ">>>" + call), "", "I look.",
        std::string(kSpaced) + std::string(kSpaced));
  check(read(kNew, "all\nAs:\n>>> print(1)\n1\n"), "", "As:\n>>> print(1)\n1\n", "");
  check(read(kNew, "Hello, there!\nSo."), "", "Hello, there!\nSo.", "");
  check(read(kNew, "f\n{"), "", "f\n{", "");
  const std::string longer(2000, 'a');
  check(read(kNew, longer, std::vector<std::string_view>{longer}), "", longer, "");
}

TEST_CASE("forms with tags around sections") {
  check(read("<minimax:tool_call>",
             "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">Zürich</"
             "parameter>\n<parameter name=\"days\">3</parameter>\n</invoke>\n</minimax:tool_call>"),
        "", "", std::string(kWeather));
  const auto minimax = [](std::string text) {  // each % is what stands before tags
    for (size_t at = 0; (at = text.find('%', at)) != std::string::npos;) {
      text.replace(at, 1, "]<]minimax[>[");
    }
    return text;
  };
  const std::string minimax_marks = minimax("% <mm:think>");
  check(read(minimax_marks,
             minimax("<mm:think>hm</mm:think>I look.%<tool_call>\n%<invoke name=\"get_weather\">"
                     "%<city>Zürich%</city>%<days>3%</days>%</invoke>\n%</tool_call>")),
        "hm", "I look.", std::string(kWeather));
  check(read(minimax_marks, "</mm:think>Done.", "]~b]ai\n"), "", "Done.", "");
  check(read(minimax_marks,
             minimax("%<tool_call>%<invoke name=\"f\">%<a>%<item>%<b>x%</b>%<c>true%</c>%</item>"
                     "%<item>2%</item>%</a>\n%<d>%<e>%</e>%</d>%</invoke>"
                     "%<invoke name=\"g\">%</invoke>%</tool_call>")),
        "", "", "|f|{\"a\":[{\"b\":\"x\",\"c\":true},2],\"d\":{\"e\":\"\"}};|g|{};");
  const std::string open =
      minimax("%<tool_call>%<invoke name=\"f\">%<a>%<item>x%</a>%</tool_call>");
  check(read(minimax_marks, open), "", open, "");
  constexpr std::string_view kHunyuan = "<tool_calls> <tool_call> <think>";
  check(read(kHunyuan, "<think>\nhm\n</think>\n<answer>\nDone.\n</answer>"), "hm", "Done.", "");
  check(read(kHunyuan,
             "<tool_calls>\n<tool_call>get_weather\n```json\n{\"city\": \"Zürich\", \"days\": "
             "3}\n```</tool_call>\n</tool_calls>"),
        "", "", std::string(kSpaced));
  check(read(kHunyuan,
             "<tool_calls><tool_call>get_weather<tool_sep>\n<arg_key>city</arg_key>\n<arg_value>"
             "Zürich</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call></"
             "tool_calls>"),
        "", "", std::string(kWeather));
  constexpr std::string_view kHunyuan3 = "{% set HYTK = ':opensource' %} <tool_calls{}> <think{}>";
  check(read(kHunyuan3, "hm</think:opensource>Done.",
             "<｜hy_Assistant:opensource｜><think:opensource>"),
        "hm", "Done.", "");
  check(read(kHunyuan3,
             "<tool_calls:opensource>\n<tool_call:opensource>get_weather<tool_sep:opensource>\n"
             "<arg_key:opensource>city</arg_key:opensource>\n<arg_value:opensource>Zürich"
             "</arg_value:opensource>\n<arg_key:opensource>days</arg_key:opensource>\n"
             "<arg_value:opensource>3</arg_value:opensource>\n</tool_call:opensource>\n"
             "</tool_calls:opensource>"),
        "", "", std::string(kWeather));
  check(read("<tool_calls> Here are my reasoning steps: [BEGIN FINAL RESPONSE]",
             "hm\n[BEGIN FINAL RESPONSE]\nI look.\n<tool_calls>[{\"name\": \"f\", \"arguments\": "
             "{}}]</tool_calls>",
             "<|begin_assistant|>\nHere are my reasoning steps:\n"),
        "hm", "I look.", "|f|{};");
  check(read("<use_mcp_tool>",
             "I look.\n<use_mcp_tool>\n<server_name>s</server_name>\n<tool_name>f</tool_name>\n"
             "<arguments>\n{}\n</arguments>\n</use_mcp_tool>"),
        "", "I look.", "|f|{};");
  check(
      read("function call <|role_sep|>",
           "I look.<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"f\", \"arguments\": "
           "{}}<|message_sep|>"),
      "", "I look.", "|f|{};");
  check(read("<tool_call> <response> </think>", "hm</think>\n\n<response>\nDone.\n</response>\n",
             "<think>\n"),
        "hm", "Done.", "");
  check(read("<|tool|> <|/tool|>",
             "<|tool_call|>[{\"name\": \"f\", \"arguments\": {}}]<|/tool_call|>"),
        "", "", "|f|{};");
  check(read("<TOOLCALL>", "<TOOLCALL>[{\"name\": \"f\", \"arguments\": {}}]</TOOLCALL>"), "", "",
        "|f|{};");
}

TEST_CASE("text around calls") {
  const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  check(read(kHermes, "You write " + call + " so."), "", "You write  so.", "|f|{};");
  check(read(kHermes, "A.\n\n" + call + "\n" + call + "\n\nB.\n"), "", "A.\n\n\n\n\nB.\n",
        "|f|{};|f|{};");
  check(read(kHermes, "A.\n" + call + "\n"), "", "A.", "|f|{};");
  check(read(kHermes, " " + call + "\n\nB."), "", "B.", "|f|{};");
  check(read(kHermes, "<think>\nhm\n</think>\n\n" + call + "\nB."), "hm", "B.", "|f|{};");
  check(read(kHermes, "A " + call + " <tool_call>{"), "", "A  <tool_call>{", "|f|{};");
}

TEST_CASE("marks in strings of JSON do not end a call") {
  check(read(kHermes,
             "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x</tool_call>y "
             "<tool_call> \\\"</tool_call>\"}}\n</tool_call>So."),
        "", "So.", "|f|{\"a\":\"x</tool_call>y <tool_call> \\\"</tool_call>\"};");
  check(read("<function= <|start_header_id|>", "<function=f>{\"a\": \"</function> x\"}</function>"),
        "", "", "|f|{\"a\": \"</function> x\"};");
  check(read(">>>all", "f\n{\"a\": \"run\\n>>> 1\"}>>>g\n{}>>>all\nDone."), "", "Done.",
        "|f|{\"a\": \"run\\n>>> 1\"};|g|{};");
  check(read("<|channel|> <|message|>",
             "<|channel|>commentary to=functions.f<|message|>{\"a\": \"<|end|>\"}<|call|>"),
        "", "", "|f|{\"a\": \"<|end|>\"};");
  const std::string code = "{\"a\": \"```py <｜tool▁call▁end｜><｜tool▁calls▁end｜>\"}";
  check(read("<｜tool▁calls▁begin｜>",
             "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n" +
                 code + "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"),
        "", "", "|f|" + code + ";");
  check(read("<|tool_calls_section_begin|>",
             "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_"
             "begin|>{\"a\": \"<|tool_call_end|>\"}<|tool_call_end|><|tool_calls_section_end|>"),
        "", "", "functions.f:0|f|{\"a\": \"<|tool_call_end|>\"};");
}

TEST_CASE("a string that does not end has marks count in it") {
  const std::string broken = "<tool_call>{\"name\": \"f</tool_call>";
  const std::string good = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  check(read(kHermes, broken + "So." + good), "", broken + "So.", "|f|{};");
  check(read(kHermes, broken + "A " + good + broken), "", broken + "A " + broken, "|f|{};");
  check(read(kHermes, broken + "\nSo.\n" + good), "", broken + "\nSo.", "|f|{};");
  check(read(">>>all", "f\n{\"a\": \">>>g\n{}"), "", "f\n{\"a\": \"", "|g|{};");
  check(read(kHermes, "say \"<tool_call>\" and \"</tool_call>\""), "",
        "say \"<tool_call>\" and \"</tool_call>\"", "");
}

TEST_CASE("JSON that is nested deep is no call") {
  const std::string deep =
      "<tool_call>{\"name\": \"f\", \"arguments\": " + std::string(200'000, '[') +
      std::string(200'000, ']') + "}</tool_call>";
  OutputReader reader(kHermes, "");
  std::vector<OutputEvent> events;
  reader.push(deep, events);
  reader.finish(events);
  for (const OutputEvent& event : events) CHECK(event.kind == OutputEvent::Kind::content);
}

TEST_CASE("the time to read grows as the text does") {
  // A text that stays undecided must not be looked through anew for each piece. Work that grows
  // with the square takes 64 times as long for 8 times the length.
  const std::string harmony = "<|channel|>commentary to=functions.f<|message|>";
  const std::pair<std::string_view, std::string> all[] = {
      {"<|channel|> <|message|>", harmony + "{\"a\": \""},
      {"<|start_header_id|> \"parameters\"", ""},
      {"<|start_header_id|> \"parameters\"", "{\"name\":"},
      {kHermes, "<tool_call>"},
      {kHermes, "<tool_call>{\"a\": \""},
      {kHermes, ""},
      {"List of tools: <|im_start|>", "<|tool_call_start|>[f(x=["},
      {"<|tool_call>", "<|tool_call>call:f{x:["},
      {">>>all", "all\n>>>"},
      {"<|header_start|> \"parameters\"", "[f("},
  };
  for (const auto& [source, start] : all) {
    for (const char fill : {' ', 'x', '<'}) {
      CAPTURE(source);
      CAPTURE(start);
      CAPTURE(fill);
      constexpr size_t kSize = 50'000;
      double ratio = 0;
      for (int attempt = 0; attempt < 4; ++attempt) {  // a busy machine can spoil one
        const double small = reading_time(source, start + std::string(kSize, fill));
        ratio = reading_time(source, start + std::string(8 * kSize, fill)) / small;
        if (ratio < 25) break;
      }
      CHECK(ratio < 25);
    }
  }
  // Many sections in one piece; also those with a string that does not end.
  for (const char* section :
       {"<think>a</think>b", "<tool_call>\\\"</tool_call>", "<tool_call>{}</tool_call>\""}) {
    CAPTURE(section);
    const auto whole = [&](size_t count) {
      std::string text;
      for (size_t i = 0; i < count; ++i) text += section;
      const double begin = test::thread_seconds();
      OutputReader reader(kHermes, "");
      std::vector<OutputEvent> events;
      reader.push(text, events);
      reader.finish(events);
      return test::thread_seconds() - begin;
    };
    double ratio = 0;
    for (int attempt = 0; attempt < 4; ++attempt) {
      ratio = whole(80'000) / whole(10'000);
      if (ratio < 25) break;
    }
    CHECK(ratio < 25);
  }
}

TEST_CASE("formats of published templates") {
  const std::pair<const char*, std::string_view> kExpected[] = {
      {"openai-gpt-oss-120b", "harmony"},
      {"deepseek-ai-DeepSeek-V3.2", "dsml"},
      {"deepseek-ai-DeepSeek-V4", "dsml"},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek"},
      {"mistralai-Mistral-Nemo-Instruct-2407", "mistral"},
      {"unsloth-mistral-Devstral-Small-2507", "mistral"},
      {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral"},
      {"Kimi-K2-Instruct", "kimi"},
      {"ByteDance-Seed-OSS", "seed"},
      {"GLM-4.6", "glm"},
      {"Qwen3.5-4B", "qwen-xml"},
      {"stepfun-ai-Step-3.5-Flash", "qwen-xml"},
      {"Qwen-Qwen3-0.6B", "hermes"},
      {"Qwen-Qwen2.5-7B-Instruct", "hermes"},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes"},
      {"ibm-granite-granite-3.3-2B-Instruct", "granite"},
      {"meta-llama-Llama-3.3-70B-Instruct", "llama3"},
      {"google-gemma-2-2b-it", "plain"},
      {"google-gemma-4-31B-it-interleaved", "gemma4"},
      {"LFM2-8B-A1B", "lfm2"},
      {"LFM2.5-Instruct", "lfm2"},
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "cohere"},
      {"Cohere2MoE", "cohere"},
      {"Apertus-8B-Instruct", "apertus"},
      {"meetkai-functionary-medium-v3.1", "functionary-v3.1"},
      {"meetkai-functionary-medium-v3.2", "functionary-v3.2"},
      {"Apriel-1.6-15b-Thinker-fixed", "apriel"},
      {"GigaChat3-10B-A1.8B", "gigachat"},
      {"MiroThinker", "mcp"},
      {"Reka-Edge", "hermes"},
  };
  for (const auto& [name, format] : kExpected) {
    const std::string source =
        test::read_text(test::data_path(std::string("templates/") + name + ".jinja"));
    CHECK_MESSAGE(find_output_format(source).name == format, name);
  }
}

}  // namespace
}  // namespace infer
