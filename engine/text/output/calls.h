// The forms in which models write calls of tools. Each function reads the calls within one section;
// it returns nothing if the text does not keep to the form. The forms with tags need the declared
// tools: they do not say whether 94107 is a number or a text.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/text/output/declared_tools.h"

namespace infer {

/// White space around sections, calls and values: that of JSON.
inline constexpr std::string_view kWhiteSpace = " \t\r\n";

namespace calls {

using Calls = std::optional<std::vector<ToolCall>>;

/// Whether the text is one JSON value, nested no deeper than 100.
bool is_json(std::string_view text);

// JSON (json_calls.cpp).

/// {"name": …} or {"tool_name": …} with "arguments" or "parameters"; arrays and sequences of such.
Calls json(std::string_view text, const DeclaredTools& tools);
/// [{"NAME": {…}}, …].
Calls named_json(std::string_view text, const DeclaredTools& tools);
/// An array as above, or `NAME[ARGS]JSON` for each call, with `[TOOL_CALLS]` between them.
Calls mistral(std::string_view text, const DeclaredTools& tools);
/// `<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME`, then JSON in a code block; or
/// `NAME<｜tool▁sep｜>JSON`.
Calls deepseek(std::string_view text, const DeclaredTools& tools);
/// `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>JSON<|tool_call_end|>`.
Calls kimi(std::string_view text, const DeclaredTools& tools);
/// `begin_tool_request`, NAME between `begin_tool_name` and `end_tool_name`, JSON between
/// `begin_tool_arguments` and `end_tool_arguments`, `end_tool_request`; each mark is
/// `<|plamo:MARK:plamo|>`.
Calls plamo(std::string_view text, const DeclaredTools& tools);
/// `NAME>JSON`: what follows `<function=`.
Calls function_json(std::string_view text, const DeclaredTools& tools);
/// A call as JSON, or the source of a program: a call of "python" with {"code": …}.
Calls python_code(std::string_view text, const DeclaredTools& tools);

// Tags (tagged_calls.cpp). A value is what typed_value() makes of its text.

/// `<function=NAME><parameter=KEY>VALUE</parameter></function>`.
Calls function_tags(std::string_view text, const DeclaredTools& tools);
/// The same without the `<function=`, of a tool that was declared: some models leave out what
/// stands around their calls.
Calls open_function_tags(std::string_view text, const DeclaredTools& tools);
/// `NAME`, then `<arg_key>KEY</arg_key><arg_value>VALUE</arg_value>`.
Calls argument_tags(std::string_view text, const DeclaredTools& tools);
/// `<｜DSML｜invoke name="NAME"><｜DSML｜parameter name="KEY" string="true">VALUE…`; with
/// string="false" the value is JSON.
Calls dsml(std::string_view text, const DeclaredTools& tools);
/// `<invoke name="NAME"><parameter name="KEY">VALUE</parameter></invoke>`.
Calls invoke_tags(std::string_view text, const DeclaredTools& tools);
/// `<invoke name="NAME"><KEY>VALUE</KEY></invoke>` with `]<]minimax[>[` before each tag. The
/// members of an object are such tags in turn, the elements of an array tags `<item>`.
Calls minimax_m3(std::string_view text, const DeclaredTools& tools);
/// `<tool_call>NAME`, then JSON in a code block or `<tool_sep>` and tags of arguments.
Calls hunyuan(std::string_view text, const DeclaredTools& tools);
/// The same with `:opensource` at the end of each tag's name.
Calls hunyuan_v3(std::string_view text, const DeclaredTools& tools);
/// `<server_name>…</server_name><tool_name>NAME</tool_name><arguments>JSON</arguments>`.
Calls mcp(std::string_view text, const DeclaredTools& tools);

// Literals (literal_calls.cpp).

/// `NAME(KEY=VALUE, …)`, alone, on a line each or in brackets; values as Python writes them. JSON
/// calls too.
Calls python(std::string_view text, const DeclaredTools& tools);
/// `call:NAME{KEY:VALUE,…}`; text is between `<|"|>` or `<escape>`.
Calls gemma(std::string_view text, const DeclaredTools& tools);

}  // namespace calls
}  // namespace infer
