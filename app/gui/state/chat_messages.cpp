#include "gui/state/chat_messages.h"

#include <algorithm>
#include <utility>

#include "chat/image_marks.h"
#include "gui/state/text_file.h"

namespace infer::gui {
namespace {

constexpr size_t kTitleBytes = 60;

}  // namespace

std::string title_of(const std::string& message) {
  std::string text, name;
  size_t at = 0;
  for (const chat::ImageMark& image : chat::image_marks(message)) {
    if (name.empty()) name = image.path.substr(image.path.rfind('/') + 1);
    text.append(message, at, image.begin - at);
    at = image.end;
  }
  text.append(message, at);
  text = std::string(after_quoted_files(text, name));
  if (text.empty()) text = name;
  const size_t start = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  std::string title = text.substr(start, text.find_first_of("\r\n", start) - start);
  if (title.size() <= kTitleBytes) return title.empty() ? "New conversation" : title;
  size_t end = kTitleBytes;
  while (end > 0 && (static_cast<unsigned char>(title[end]) & 0xC0) == 0x80) --end;
  if (const size_t space = title.rfind(' ', end); space != std::string::npos && space > end / 2) {
    end = space;
  }
  return title.substr(0, end) + "…";
}

conversations::Statistics statistics_of(const GenerateResult& result) {
  const auto rate = [](int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  };
  return {result.prompt_tokens, result.generated_tokens,
          rate(result.prompt_tokens - result.reused_tokens, result.prompt_seconds),
          rate(result.generated_tokens, result.generate_seconds), result.first_token_seconds};
}

std::vector<Message> messages_of(const Tree& tree, const std::vector<Id>& path,
                                 const std::string& system_prompt) {
  std::vector<Message> messages;
  if (!system_prompt.empty()) messages.push_back({"system", system_prompt, {}, {}, {}, {}});
  for (const Id id : path) {
    const conversations::Message& from = *tree.find(id);
    Message message{conversations::role_name(from.role), from.text, from.reasoning, {}, {}, {}};
    for (const conversations::ToolCall& call : from.tool_calls) {
      message.calls.push_back({call.id, call.name, call.arguments});
    }
    messages.push_back(std::move(message));
    for (const conversations::ToolCall& call : from.tool_calls) {
      if (call.result.empty()) continue;
      messages.push_back({"tool", call.result, {}, {}, call.id, call.name});
    }
  }
  return messages;
}

ChatForm form_of(const ChatSettings& settings) {
  return {settings.chat_template, settings.tools, settings.template_variables()};
}

}  // namespace infer::gui
