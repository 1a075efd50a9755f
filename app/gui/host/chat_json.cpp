#include "gui/host/chat_json.h"

#include <optional>
#include <utility>

#include "chat/images.h"
#include "chat/named_templates.h"
#include "hub/bounded_json.h"

namespace infer::gui {
namespace {

using chat::Json;

constexpr int kMostLevels = 100;

Result<Json> message_json(const Message& message, bool sees) {
  Json json = {{"role", message.role}, {"content", message.content}};
  if (message.role == "user") {
    auto content = chat::content_of(message.content);
    if (!content) return tl::unexpected(content.error());
    if (content->is_array() && !sees) {
      return tl::unexpected(
          Status(StatusCode::unsupported,
                 "the model was loaded without a file that reads images: on the page of models, "
                 "name one (mmproj) and load the model again"));
    }
    json["content"] = *std::move(content);
  }
  if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
  for (const ToolCall& call : message.calls) {
    json["tool_calls"].push_back(chat::tool_call_json(call));
  }
  if (!message.call_id.empty()) json["tool_call_id"] = message.call_id;
  if (!message.tool.empty()) json["name"] = message.tool;
  return json;
}

}  // namespace

Result<Json> messages_json(const std::vector<Message>& messages, bool sees) {
  Json json = Json::array();
  for (const Message& message : messages) {
    auto made = message_json(message, sees);
    if (!made) return made;
    json.push_back(*std::move(made));
  }
  return json;
}

Result<Json> variables_json(const ChatForm& form) {
  Json variables = Json::object();
  if (!form.variables.empty()) {
    std::optional<Json> given = hub::parse_bounded<Json>(form.variables, kMostLevels);
    if (!given || !given->is_object()) {
      return tl::unexpected(
          Status(StatusCode::invalid_argument,
                 "variables of the chat template: expected a JSON object of at most 100 levels"));
    }
    variables = *std::move(given);
  }
  if (!form.tools.empty()) {
    std::optional<Json> tools = hub::parse_bounded<Json>(form.tools, kMostLevels);
    if (!tools || !tools->is_array()) {
      return tl::unexpected(Status(StatusCode::invalid_argument,
                                   "tools: expected a JSON array of at most 100 levels"));
    }
    if (!tools->empty()) variables["tools"] = *std::move(tools);
  }
  return variables;
}

Result<std::unique_ptr<chat::Conversation>> open_conversation(Engine& engine,
                                                              const ChatForm& form) {
  Result<Json> variables = variables_json(form);
  if (!variables) return tl::unexpected(variables.error());
  Result<chat::ChosenTemplate> chosen = chat::choose_template(form.chat_template);
  if (!chosen) {
    return tl::unexpected(
        Status(chosen.error().code(), "chat template: " + chosen.error().message()));
  }
  if (chosen->source.empty() && engine.model().chat_template.empty()) {
    return tl::unexpected(
        Status(StatusCode::bad_file, engine.model().path +
                                         ": the model has no chat template; choose one in the "
                                         "conversation's Settings (Ctrl+B)"));
  }
  return chat::Conversation::open(engine, chosen->source, *std::move(variables));
}

}  // namespace infer::gui
