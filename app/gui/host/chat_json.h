// The messages of a conversation as chat templates want them. For .cpp files: it includes a large
// header.
#pragma once

#include "chat/conversation.h"
#include "gui/host/engine_events.h"

namespace infer::gui {

/// `sees`: the model reads images. Those that messages of the user name (chat::content_of()) are
/// read. unsupported: the model reads none; other errors are those of content_of().
Result<chat::Json> messages_json(const std::vector<Message>& messages, bool sees);
/// The variables of a template besides the messages. invalid_argument: the tools or the variables
/// are not JSON of the kind that is expected.
Result<chat::Json> variables_json(const ChatForm& form);
/// A conversation of this form without messages.
Result<std::unique_ptr<chat::Conversation>> open_conversation(Engine& engine, const ChatForm& form);

}  // namespace infer::gui
