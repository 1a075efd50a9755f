#include <fmt/format.h>

#include <algorithm>

#include "conversations/export.h"

namespace infer::conversations {
namespace {

/// A block of code whose fence is longer than any in the text.
std::string fenced(const std::string& text, const char* language) {
  size_t longest = 2;
  size_t run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  return fmt::format("{}{}\n{}\n{}\n\n", fence, language, text, fence);
}

const char* heading(Role role) {
  switch (role) {
    case Role::system: return "System";
    case Role::user: return "User";
    case Role::assistant: return "Assistant";
    case Role::tool: return "Tool";
  }
  return "";
}

/// A title on one line.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text.empty() ? "Conversation" : text;
}

}  // namespace

std::string to_markdown(const Tree& tree) {
  const Conversation& conversation = tree.conversation();
  std::string out = fmt::format("# {}\n\n", one_line(conversation.title));
  if (!conversation.system_prompt.empty()) {
    out += fmt::format("## System\n\n{}\n\n", conversation.system_prompt);
  }
  for (const Id id : tree.shown()) {
    const Message& m = *tree.find(id);
    out += fmt::format("## {}{}\n\n", heading(m.role),
                       m.model.empty() ? "" : " · " + one_line(m.model));
    if (!m.reasoning.empty()) {
      out +=
          fmt::format("<details><summary>Reasoning</summary>\n\n{}\n\n</details>\n\n", m.reasoning);
    }
    if (!m.text.empty()) out += m.text + "\n\n";
    for (const ToolCall& call : m.tool_calls) {
      out +=
          fmt::format("Call of `{}`:\n\n{}", one_line(call.name), fenced(call.arguments, "json"));
      if (!call.result.empty()) out += "Result:\n\n" + fenced(call.result, "");
    }
    if (m.state == State::stopped) out += "*(stopped)*\n\n";
  }
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

}  // namespace infer::conversations
