// From the store's conversations to what the engine gets, and back.
#pragma once

#include <string>
#include <vector>

#include "conversations/tree.h"
#include "gui/host/engine_events.h"
#include "gui/state/chat_settings.h"

namespace infer::gui {

using conversations::Id;
using conversations::Tree;

/// The first line of a text, cut between two characters. The marks of images and the texts of files
/// that were attached do not count; if there is nothing else, it is the name of the first one.
std::string title_of(const std::string& message);

conversations::Statistics statistics_of(const GenerateResult& result);

/// The messages of a conversation as the model gets them, up to and with the last of `path`.
std::vector<Message> messages_of(const Tree& tree, const std::vector<Id>& path,
                                 const std::string& system_prompt);

ChatForm form_of(const ChatSettings& settings);

}  // namespace infer::gui
