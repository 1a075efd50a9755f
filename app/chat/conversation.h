// A conversation with a model: messages rendered by its chat template, answers taken apart.
//
// The session keeps what it has computed: where the rendered text only grows, as most templates
// have it, a turn computes its own tokens alone; where a template rewrites the past (leaves out
// earlier reasoning, for instance), all from the first token that differs.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "infer/infer.hpp"

namespace infer::chat {

using Json = nlohmann::ordered_json;

struct Answer {
  GenerateResult result;
  std::string content, reasoning;
  std::vector<ToolCall> calls;
  int64_t computed_tokens = 0;   ///< of the prompt: what the session did not hold already
  int64_t dropped_messages = 0;  ///< the oldest ones, which the model did not see
};

/// Told the parts of an answer as they come; return false to end it.
using EventFn = std::function<bool(const OutputEvent&)>;

/// One thread. Functions that fail return Status or Result.
class Conversation {
 public:
  /// `source`: the chat template; empty: the model's, and bad_file if that has none. `variables`:
  /// an object with further variables of the template. The engine outlives it.
  static Result<std::unique_ptr<Conversation>> open(Engine& engine, std::string source,
                                                    Json variables);

  /// {"role", "content", …} each. A caller may change them at any time.
  Json& messages() { return messages_; }
  const Json& messages() const { return messages_; }
  /// Generates the answer to the messages and appends it to them, also one that was ended early.
  /// After a failure they are as before. does_not_fit: the messages fill the context. With
  /// ContextOverflow::shift the model then sees less of them: the oldest turns are left out whole
  /// (a message of the user and all up to the next one), but not the system message and not the
  /// last turn. messages() keeps them all. It is a failure only if the last turn alone does not
  /// fit.
  Result<Answer> answer(const GenerateOptions& options, const EventFn& on_event);
  /// Ends a running answer() soon, also while the template is rendered; the answer then has what
  /// was said until then. Any thread, and a signal handler.
  void cancel() {
    cancelled_ = true;
    session_->cancel();
  }
  /// What was too long for the context when the last answer() failed with does_not_fit: the
  /// messages together, or the last turn alone. Nothing: it failed for another reason, or did not.
  enum class TooLong { nothing, messages, last_turn };
  TooLong too_long() const { return too_long_; }
  /// Tokens of the last answer and all before it.
  int64_t length() const { return session_->length(); }

 private:
  Conversation(Engine& engine, std::string source, Json variables);

  /// What an answer continues.
  struct Prompt {
    std::string text;
    std::vector<int32_t> tokens;  ///< those that the session does not hold
    int64_t length = 0;           ///< all tokens of the text
  };
  /// Drops turns where that is wanted and needed.
  Result<Prompt> prompt(const GenerateOptions& options);
  /// A caller may have changed the messages: what was dropped counts only if they begin with it.
  void forget_dropped();
  /// The messages but those of `dropped_`.
  Json seen() const;
  /// The text that the model continues.
  Result<std::string> render() const;
  Result<std::vector<int32_t>> all_tokens(const std::string& text) const;
  Result<std::vector<int32_t>> new_tokens(const std::string& text);
  /// Drops turns until at most `most` tokens are left, or the last turn alone.
  Status drop_turns(int64_t most);

  Engine& engine_;
  std::string source_;
  Json variables_;
  Json messages_ = Json::array();
  Json dropped_ = Json::array();  ///< the oldest messages after the system message, not seen
  std::unique_ptr<ChatTemplate> template_;
  std::unique_ptr<Session> session_;
  std::atomic<bool> cancelled_{false};
  TooLong too_long_ = TooLong::nothing;
  std::string spoken_;         ///< the text of the tokens held, special ones spelt out
  std::vector<int32_t> held_;  ///< the session's tokens
};

}  // namespace infer::chat
