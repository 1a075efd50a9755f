// The formats that import.h reads: one conversation, parsed, to what the store takes. Errors are in
// `fields`. For .cpp files, which include nlohmann/json.hpp.
#pragma once

#include <string>
#include <utility>

#include "conversations/json_fields.h"
#include "conversations/store.h"

namespace infer::conversations {

/// A conversation of our own format, whose messages come one after another.
class OwnConversation {
 public:
  /// `at`: of the conversation in the file. `fields` outlives the reader.
  OwnConversation(JsonFields& fields, std::string at) : fields_(fields), at_(std::move(at)) {}

  void message(const Json& source);
  /// The conversation, with what stands beside its messages.
  ImportedConversation finish(const Json& rest);

 private:
  std::string place_of(size_t message) const;
  Id reference(const Json& object, const char* name, const std::string& place, Id most);

  JsonFields& fields_;
  std::string at_;
  ImportedConversation made_;
};

ImportedConversation read_chatgpt(JsonFields& fields, const Json& source, const std::string& at);
ImportedConversation read_lm_studio(JsonFields& fields, const Json& source);

/// Adds a message after `parent`, with the next id, and returns that.
Id add_message(ImportedConversation& conversation, Id parent, Message message);
/// Selects the messages from the first one to `last`.
void select_path(ImportedConversation& conversation, Id last);

}  // namespace infer::conversations
