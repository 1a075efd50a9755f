// The formats in which models write reasoning and calls of tools. The source of the chat template
// shows which one a model uses.
//
// The formats and how a call is written in them:
//
// - harmony (gpt-oss): messages `<|channel|>NAME<|message|>…<|end|>`. The channel "analysis" is
//   reasoning; "final" and "commentary" are content; `to=functions.NAME` is a call.
// - dsml (DeepSeek V3.2, V4): `<｜DSML｜invoke name="…"><｜DSML｜parameter name="…"
//   string="true">…` within `<｜DSML｜function_calls>` or `…tool_calls>`.
// - deepseek (V3, R1): `<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME`, then JSON in a code
//   block. V3.1: `NAME<｜tool▁sep｜>JSON`.
// - mistral: `[TOOL_CALLS]` with a JSON array, or `NAME[ARGS]JSON` for each call.
// - kimi: `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>JSON`.
// - seed, qwen-xml: `<function=NAME><parameter=KEY>VALUE</parameter></function>` in
//   `<seed:tool_call>` or `<tool_call>`.
// - glm: `<tool_call>NAME`, then `<arg_key>`, `<arg_value>`.
// - granite: `<|tool_call|>` and a JSON array.
// - hermes (Hermes, Qwen 2.5 and 3, …): `<tool_call>{"name": …, "arguments": …}</tool_call>`.
// - llama3: an answer that is only `{"name": …, "parameters": …}`, possibly after
//   `<|python_tag|>`.
// - plain: no calls.
//
// In the formats without JSON a value is text. If the text is JSON of another type (a number, true,
// an object, …), the value has that type, unless the format itself names the type.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "infer/infer.hpp"

namespace infer {

/// White space around sections, calls and values: that of JSON.
inline constexpr std::string_view kWhiteSpace = " \t\r\n";

/// Calls within one section, or nothing where the text is not well formed.
using ParseCalls = std::optional<std::vector<ToolCall>> (*)(std::string_view text);

struct ToolSection {
  std::string_view open;
  std::string_view close;  ///< empty: to the end of the text
  ParseCalls parse;
};

struct OutputFormat {
  std::string_view name;
  std::string_view marks[2];  ///< in the template's source; empty ones are in all
  ToolSection sections[2];    ///< unused ones have no `open`
  bool harmony = false;
  bool bare_json = false;  ///< a call may be the whole answer, without marks
};

struct ReasoningMarks {
  std::string_view open;
  std::string_view close;
};

/// Constants of the library.
const OutputFormat& find_output_format(std::string_view template_source);
/// Null if the template knows of no reasoning.
const ReasoningMarks* find_reasoning(std::string_view template_source);

/// One call as JSON: {"name": …} with "arguments" or "parameters"; arrays and sequences of such.
std::optional<std::vector<ToolCall>> parse_json_calls(std::string_view text);
/// Whether the text is one JSON value.
bool is_json(std::string_view text);

}  // namespace infer
