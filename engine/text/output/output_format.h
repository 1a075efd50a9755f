// The formats in which models write reasoning and calls of tools. The source of the chat template
// shows which one a model uses. How calls are written in them is in calls.h.
#pragma once

#include <string>
#include <string_view>

#include "engine/text/output/calls.h"

namespace infer {

using ParseCalls = calls::Calls (*)(std::string_view text, const DeclaredTools& tools);

struct ToolSection {
  std::string_view open;
  std::string_view close;  ///< empty: to the end of the text
  ParseCalls parse;
  bool json = false;        ///< quotation marks enclose strings of JSON, in which no mark counts
  bool declared = false;    ///< counts only if tools were declared
  std::string_view rest{};  ///< a mark that is left out of the content, wherever it stands
};

/// What is said before a message.
struct MessageHeader {
  bool reasoning = false;
  std::string function;  ///< that the message calls, its text being the arguments; empty: none
};

/// A form in which all text is in messages, each after a header. The text of a call is JSON.
struct MessageForm {
  std::string_view header_end;
  std::string_view ends[5];      ///< of a message; unused ones are empty
  std::string_view next_header;  ///< those of `ends` that begin with it belong to the next header
  bool (*read)(std::string_view header, MessageHeader& out);  ///< false: this is no header
  std::string_view answer;  ///< header of a message for the user, behind a prompt
};

struct OutputFormat {
  std::string_view name;
  std::string_view marks[2];    ///< in the template's source; empty ones are in all
  ToolSection sections[2];      ///< unused ones have no `open`
  std::string_view dropped[4];  ///< marks that stand around content
  const MessageForm* messages = nullptr;
  ParseCalls bare = nullptr;  ///< a call of a declared tool may be the whole answer, without marks
  bool calls_in_reasoning = false;  ///< a section may stand within reasoning
};

struct ReasoningMarks {
  std::string_view open;
  std::string_view close;
  std::string_view shown{};  ///< how the template's source has `open`; empty: as it is
};

/// Constants of the library.
const OutputFormat& find_output_format(std::string_view template_source);
/// Null if the template knows of no reasoning.
const ReasoningMarks* find_reasoning(std::string_view template_source);
/// Whether a prompt ends within reasoning.
bool ends_in_reasoning(const ReasoningMarks& marks, std::string_view prompt);
/// OutputParser::lead_to_answer().
std::string lead_to_answer(std::string_view template_source, std::string_view prompt);

}  // namespace infer
