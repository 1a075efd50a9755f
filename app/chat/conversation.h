// A conversation with a model. The chat template renders the messages to text; answers are split
// into reasoning, content and calls of tools.
//
// The session keeps the tokens it has computed. With most templates the rendered text only grows,
// so a turn computes only its own tokens. If a template changes earlier text (for example, leaves
// out earlier reasoning), a turn computes everything from the first token that differs.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chat/images.h"
#include "infer/infer.hpp"

namespace infer::chat {

using Json = nlohmann::ordered_json;

struct Answer {
  GenerateResult result;
  std::string content, reasoning;
  std::vector<ToolCall> calls;
  int64_t computed_tokens = 0;   ///< tokens of the prompt that the session had to compute
  int64_t dropped_messages = 0;  ///< oldest messages that the model did not see
};

/// An entry of a message's "tool_calls".
Json tool_call_json(const ToolCall& call);

/// Receives the parts of an answer as they come. Returns false to end the answer.
using EventFn = std::function<bool(const OutputEvent&)>;

/// Not thread-safe, except cancel().
class Conversation {
 public:
  /// `source`: the chat template; empty: that of the model. `variables`: an object with further
  /// variables for the template. The engine outlives the conversation. Errors: bad_file if the
  /// model has no template.
  static Result<std::unique_ptr<Conversation>> open(Engine& engine, std::string source,
                                                    Json variables);

  /// The messages, each {"role", "content", …}. The caller may change them between calls.
  Json& messages() { return messages_; }
  const Json& messages() const { return messages_; }
  /// Generates the answer to the messages and appends it, even if it was ended early. After a
  /// failure the messages are unchanged. Errors: does_not_fit if the messages fill the context.
  ///
  /// With ContextOverflow::shift the model then sees fewer messages: whole turns are left out, the
  /// oldest first. A turn is a message of the user and everything up to the next one. The system
  /// message and the last turn always stay. messages() keeps all of them. It fails only if the last
  /// turn alone does not fit.
  Result<Answer> answer(const GenerateOptions& options, const EventFn& on_event);
  /// Goes on with the last message, an answer that was ended early. The result and the events have
  /// what is new; the message gets it too. An empty message is the same as none. Otherwise as
  /// answer(). invalid_argument if the last message is not an answer. unsupported if the template
  /// does not show the text of that answer as it is, or if it ended while the model was thinking.
  Result<Answer> continue_answer(const GenerateOptions& options, const EventFn& on_event);
  /// Tokens of all messages, with what the template adds for an answer. Computes nothing.
  Result<int64_t> count();
  /// Ends a running answer() soon, even while the template is rendered. The answer then has the
  /// text generated so far. May be called from any thread and from a signal handler.
  void cancel() {
    cancelled_ = true;
    session_->cancel();
  }
  /// A call that begins while `stop` is true ends as if cancel() had been called. `stop` outlives
  /// the conversation; null: none. For callers whose cancel() may come before the call does.
  void watch(const std::atomic<bool>* stop) { stop_ = stop; }
  /// The reason if the last answer() failed with does_not_fit: all messages together are too long,
  /// or the last turn alone is. `nothing` in all other cases.
  enum class TooLong { nothing, messages, last_turn };
  TooLong too_long() const { return too_long_; }
  /// Tokens of the context that are taken: of the last answer and all before it. The last token of
  /// an answer is computed with the next message, so in a full context it is one more and takes no
  /// place.
  int64_t context_used() const { return std::min(session_->length(), engine_.memory().longest); }
  /// Session::number() of its session.
  int64_t session() const { return session_->number(); }

 private:
  Conversation(Engine& engine, std::string source, Json variables);

  /// The text that an answer continues.
  struct Prompt {
    std::string text;
    std::vector<int32_t> tokens;  ///< tokens that the session does not hold yet
    int64_t length = 0;           ///< number of all tokens of the text
  };
  /// Drops turns if the options allow it and it is necessary.
  Result<Prompt> prompt(const GenerateOptions& options);
  /// Clears dropped_ if the messages no longer begin with it, since the caller may change them.
  void forget_dropped();
  /// The messages without dropped_.
  Json seen() const;
  /// The text that the model continues.
  Result<std::string> render();
  Result<Answer> generate(const GenerateOptions& options, const EventFn& on_event);
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
  const std::atomic<bool>* stop_ = nullptr;
  bool continues_ = false;  ///< the running call goes on with the last message
  TooLong too_long_ = TooLong::nothing;
  std::string spoken_;         ///< text of held_, with special tokens spelt out
  std::vector<int32_t> held_;  ///< tokens that the session holds
  MessageImages message_images_;
  std::vector<ModelImage> images_;  ///< of the messages that were last rendered
};

}  // namespace infer::chat
