// The formats that import.h reads: one conversation, parsed, to what the store takes. Errors are in
// `fields`. For .cpp files, which include nlohmann/json.hpp.
#pragma once

#include <string>

#include "conversations/json_fields.h"
#include "conversations/store.h"

namespace infer::conversations {

ImportedConversation read_own(JsonFields& fields, const Json& source, const std::string& at);
ImportedConversation read_chatgpt(JsonFields& fields, const Json& source, const std::string& at);
ImportedConversation read_lm_studio(JsonFields& fields, const Json& source);

/// Adds a message after `parent`, with the next id, and returns that.
Id add_message(ImportedConversation& conversation, Id parent, Message message);
/// Selects the messages from the first one to `last`.
void select_path(ImportedConversation& conversation, Id last);

}  // namespace infer::conversations
