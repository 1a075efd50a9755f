// What the store of conversations holds. Plain values: copying one copies all of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace infer::conversations {

/// Milliseconds since 1970, UTC.
using Time = int64_t;

/// Ids are positive, grow, and are never used again. 0: none.
using Id = int64_t;

enum class Role : uint8_t { system, user, assistant, tool };
/// "system", "user", "assistant", "tool".
const char* role_name(Role role);

enum class State : uint8_t {
  complete,
  writing,  ///< an answer that is being generated
  stopped,  ///< an answer that was ended early, by the user or by the end of the process
};
/// "complete", "writing", "stopped".
const char* state_name(State state);

struct ToolCall {
  std::string id;         ///< often empty
  std::string name;       ///< of the function
  std::string arguments;  ///< JSON, as the model wrote it
  std::string result;     ///< empty until the tool has answered

  bool operator==(const ToolCall&) const = default;
};

/// What is shown below an answer. 0: unknown.
struct Statistics {
  int64_t prompt_tokens = 0;
  int64_t generated_tokens = 0;
  double prompt_rate = 0;    ///< tokens a second
  double generate_rate = 0;  ///< tokens a second
  double first_token_seconds = 0;

  bool operator==(const Statistics&) const = default;
};

struct Message {
  Id id = 0;
  Id parent = 0;          ///< the message before it, which has a smaller id; 0: a first message
  Id selected_child = 0;  ///< which of the messages after it is shown; 0: the last one
  Role role = Role::user;
  State state = State::complete;
  std::string text;
  std::string reasoning;
  std::vector<ToolCall> tool_calls;
  Time created_at = 0;
  std::string model;  ///< that wrote it; empty for messages of the user
  Statistics statistics;

  bool operator==(const Message&) const = default;
};

struct Conversation {
  Id id = 0;
  std::string title;
  Time created_at = 0;
  Time used_at = 0;  ///< of the last change to its messages
  bool pinned = false;
  Time deleted_at = 0;  ///< when it was moved to the trash; 0: it is not there
  std::string system_prompt;
  /// A JSON object: sampling settings and the constraint (a grammar or a JSON schema). The store
  /// does not look into it, and keeps it without white space and with sorted members.
  std::string settings = "{}";
  std::string preset;    ///< the name of the preset it was made from; empty: none
  Id selected_root = 0;  ///< which of the first messages is shown; 0: the last one

  bool operator==(const Conversation&) const = default;
};

/// A message that was moved to the trash with all below it.
struct TrashedMessage {
  Id id = 0;
  Id conversation = 0;
  std::string title;    ///< of the conversation
  std::string snippet;  ///< how its text begins
  Time deleted_at = 0;

  bool operator==(const TrashedMessage&) const = default;
};

/// A system prompt and settings under a name.
struct Preset {
  std::string name;
  std::string system_prompt;
  std::string settings = "{}";  ///< as Conversation::settings

  bool operator==(const Preset&) const = default;
};

/// A match of a search.
struct Hit {
  Id conversation = 0;
  Id message = 0;  ///< 0: the title matches
  std::string title;
  std::string snippet;  ///< the text around the match
  /// Parts of the snippet that match: offset and size in bytes.
  std::vector<std::pair<size_t, size_t>> matches;
  double rank = 0;  ///< BM25; larger is better
};

}  // namespace infer::conversations
