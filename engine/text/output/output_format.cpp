#include "engine/text/output/output_format.h"

#include <algorithm>

namespace infer {
namespace {

/// `<|channel|>NAME`: "analysis" is reasoning, "final" and "commentary" are content;
/// `to=functions.NAME` is a call.
bool read_harmony(std::string_view header, MessageHeader& out) {
  const size_t channel = header.find("<|channel|>");
  out.reasoning =
      channel != std::string_view::npos && header.substr(channel + 11).starts_with("analysis");
  if (const size_t to = header.find("to="); to != std::string_view::npos) {
    const std::string_view name = header.substr(to + 3);
    out.function = name.substr(0, name.find_first_of(" \t\r\n<"));
    if (out.function.starts_with("functions.")) out.function.erase(0, 10);
  }
  return true;
}

/// `all` for content, or the name of a function. The first header's `>>>` is in the prompt.
bool read_functionary(std::string_view header, MessageHeader& out) {
  if (header.starts_with(">>>")) header.remove_prefix(3);
  const bool name = !header.empty() && std::ranges::all_of(header, [](unsigned char c) {
    return c > ' ' && std::string_view("()[]{}<>=\"'`,;:").find(static_cast<char>(c)) ==
                          std::string_view::npos;
  });
  if (name && header != "all") out.function = header;
  return name;
}

constexpr MessageForm kHarmony = {"<|message|>",
                                  {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"},
                                  "<|start|><|channel|>",
                                  read_harmony,
                                  "<|channel|>final<|message|>"};
constexpr MessageForm kFunctionary = {"\n", {">>>"}, ">>>", read_functionary, "all\n"};

/// The first whose marks are all in a template's source is its format.
constexpr OutputFormat kFormats[] = {
    {"harmony", {"<|channel|>", "<|message|>"}, {}, {}, &kHarmony},
    {"gemma4", {"<|tool_call>"}, {{"<|tool_call>", "<tool_call|>", calls::gemma}}},
    {"functiongemma",
     {"<start_function_call>"},
     {{"<start_function_call>", "<end_function_call>", calls::gemma}}},
    {"dsml",
     {"｜DSML｜"},
     {{"<｜DSML｜function_calls>", "</｜DSML｜function_calls>", calls::dsml},
      {"<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>", calls::dsml}}},
    {"deepseek",
     {"<｜tool▁calls▁begin｜>"},
     {{"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", calls::deepseek, true}}},
    {"cohere",
     {"<|START_ACTION|>"},
     {{"<|START_ACTION|>", "<|END_ACTION|>", calls::json, true}},
     {"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"}},
    {"apertus",
     {"<|tools_prefix|>"},
     {{"<|tools_prefix|>", "<|tools_suffix|>", calls::named_json, true}},
     {},
     nullptr,
     nullptr,
     true},
    {"mistral", {"[TOOL_CALLS]"}, {{"[TOOL_CALLS]", "", calls::mistral}}},
    {"kimi",
     {"<|tool_calls_section_begin|>"},
     {{"<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", calls::kimi, true}}},
    {"plamo3",
     {"<|plamo:begin_tool_requests:plamo|>"},
     {{"<|plamo:begin_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|>", calls::plamo,
       true}}},
    {"minimax",
     {"<minimax:tool_call>"},
     {{"<minimax:tool_call>", "</minimax:tool_call>", calls::invoke_tags}}},
    {"minimax-m3",
     {"]<]minimax[>["},
     {{"]<]minimax[>[<tool_call>", "]<]minimax[>[</tool_call>", calls::minimax_m3}},
     {"</mm:think>"}},  // an answer without reasoning begins with it
    {"seed",
     {"<seed:tool_call>"},
     {{"<seed:tool_call>", "</seed:tool_call>", calls::function_tags}}},
    {"hunyuan",
     {"<tool_calls>", "<tool_call>"},
     {{"<tool_calls>", "</tool_calls>", calls::hunyuan}},
     {"<answer>", "</answer>"}},
    // The template puts the names of tags together.
    {"hunyuan-v3",
     {"':opensource'", "<tool_calls{}>"},
     {{"<tool_calls:opensource>", "</tool_calls:opensource>", calls::hunyuan_v3}}},
    {"glm", {"<tool_call>", "<arg_key>"}, {{"<tool_call>", "</tool_call>", calls::argument_tags}}},
    {"qwen-xml",
     {"<tool_call>", "<function="},
     {{"<tool_call>", "</tool_call>", calls::function_tags},
      {"<function=", "</function>", calls::open_function_tags, false, true, "</tool_call>"}}},
    {"functionary-v3.1",
     {"<function=", "<|start_header_id|>"},
     {{"<function=", "</function>", calls::function_json, true},
      {"<|python_tag|>", "", calls::python_code}}},
    {"functionary-v3.2", {">>>all"}, {}, {}, &kFunctionary},
    {"apriel",
     {"<tool_calls>", "[BEGIN FINAL RESPONSE]"},
     {{"<tool_calls>", "</tool_calls>", calls::json, true}},
     {"[END FINAL RESPONSE]"}},
    {"jamba", {"<tool_calls>"}, {{"<tool_calls>", "</tool_calls>", calls::json, true}}},
    {"mcp", {"<use_mcp_tool>"}, {{"<use_mcp_tool>", "</use_mcp_tool>", calls::mcp, true}}},
    {"gigachat",
     {"function call", "<|role_sep|>"},
     {{"function call<|role_sep|>", "<|message_sep|>", calls::json, true}},
     {"<|message_sep|>"}},
    {"nemotron", {"<TOOLCALL>"}, {{"<TOOLCALL>", "</TOOLCALL>", calls::json, true}}},
    {"olmo3", {"<function_calls>"}, {{"<function_calls>", "</function_calls>", calls::python}}},
    {"granite", {"<|tool_call|>"}, {{"<|tool_call|>", "", calls::json}}},
    {"phi4", {"<|tool|>", "<|/tool|>"}, {{"<|tool_call|>", "<|/tool_call|>", calls::json, true}}},
    {"ernie",
     {"<tool_call>", "<response>"},
     {{"<tool_call>", "</tool_call>", calls::json, true}},
     {"<response>", "</response>"}},
    {"hermes", {"<tool_call>"}, {{"<tool_call>", "</tool_call>", calls::json, true}}},
    // The templates of LFM2 name the list of tools, not the marks of calls.
    {"lfm2",
     {"List of tools: ", "<|im_start|>"},
     {{"<|tool_call_start|>", "<|tool_call_end|>", calls::python}}},
    {"llama4",
     {"<|header_start|>", "\"parameters\""},
     {{"<|python_start|>", "<|python_end|>", calls::python}},
     {},
     nullptr,
     calls::python},
    {"llama3",
     {"<|start_header_id|>", "\"parameters\""},
     {{"<|python_tag|>", "", calls::json}},
     {},
     nullptr,
     calls::json},
    {"plain", {}, {}},
};

constexpr ReasoningMarks kReasoning[] = {
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
    {"<mm:think>", "</mm:think>"},
    {"<|START_THINKING|>", "<|END_THINKING|>"},
    {"<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"},
    {"<|inner_prefix|>", "<|inner_suffix|>"},
    {"<|channel>thought", "<channel|>"},
    {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"},
    {"<think:opensource>", "</think:opensource>", "<think{}>"},
    {"<think>", "</think>"},
};

}  // namespace

const OutputFormat& find_output_format(std::string_view template_source) {
  return *std::ranges::find_if(kFormats, [&](const OutputFormat& format) {
    return std::ranges::all_of(format.marks, [&](std::string_view mark) {
      return template_source.find(mark) != std::string_view::npos;
    });
  });
}

const ReasoningMarks* find_reasoning(std::string_view template_source) {
  const auto* found = std::ranges::find_if(kReasoning, [&](const ReasoningMarks& marks) {
    return template_source.find(marks.shown.empty() ? marks.open : marks.shown) !=
               std::string_view::npos ||
           template_source.find(marks.close) != std::string_view::npos;
  });
  return found == std::end(kReasoning) ? nullptr : found;
}

bool ends_in_reasoning(const ReasoningMarks& marks, std::string_view prompt) {
  return prompt.substr(0, prompt.find_last_not_of(kWhiteSpace) + 1).ends_with(marks.open);
}

std::string lead_to_answer(std::string_view template_source, std::string_view prompt) {
  std::string led(prompt);
  const ReasoningMarks* reasoning = find_reasoning(template_source);
  if (const MessageForm* messages = find_output_format(template_source).messages) {
    if (!prompt.ends_with(messages->header_end)) led += messages->answer;
  } else if (reasoning != nullptr && ends_in_reasoning(*reasoning, prompt)) {
    // As templates write an answer without reasoning.
    led += prompt.ends_with('\n') ? "\n" : "\n\n";
    led += reasoning->close;
    led += "\n\n";
  }
  return led;
}

}  // namespace infer
