// The conversations of the window: what is shown, and what the user does with it. No drawing.
//
// What the user writes is in the store before the model sees it. An answer is added to the store as
// it comes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "conversations/async_store.h"
#include "conversations/import_queue.h"
#include "gui/host/engine_host.h"
#include "gui/state/chat_settings.h"
#include "gui/state/toasts.h"

namespace infer::gui {

using conversations::Id;

/// An answer that is being generated.
struct LiveAnswer {
  Id message = 0;
  std::string text, reasoning;
  std::vector<conversations::ToolCall> calls;
  conversations::Statistics before;  ///< of what is continued
  bool continues = false;
  int64_t revision = 0;  ///< grows with each change
  bool ended = false;    ///< the store is about to have it
};

/// A message as it is shown.
struct ShownMessage {
  const conversations::Message* message = nullptr;
  const LiveAnswer* live = nullptr;    ///< not null: its texts are these
  size_t place = 0, alternatives = 1;  ///< ‹place + 1/alternatives›

  const std::string& text() const { return live != nullptr ? live->text : message->text; }
  const std::string& reasoning() const {
    return live != nullptr ? live->reasoning : message->reasoning;
  }
  const std::vector<conversations::ToolCall>& calls() const {
    return live != nullptr ? live->calls : message->tool_calls;
  }
};

class ChatState {
 public:
  ChatState(conversations::AsyncStore& store, EngineHost& engine, Toasts& toasts);

  // ---- Conversations

  /// Reads the list anew.
  void refresh();
  const std::vector<conversations::Conversation>& list() const { return list_; }
  /// Whether the list has been read: opening the file may take a while.
  bool knows_list() const { return knows_list_; }
  const std::vector<conversations::Conversation>& trash() const { return trash_; }
  const std::vector<conversations::TrashedMessage>& trashed_messages() const {
    return trashed_messages_;
  }
  /// Why nothing is stored: the conversations are in memory alone. Empty: they are stored.
  const std::string& unsaved() const { return unsaved_; }
  void set_unsaved(std::string why) { unsaved_ = std::move(why); }
  /// Why an answer, or its end, is not stored yet. Ok: none waits for that after a failure.
  Status waits_for_disk() const { return store_.unsaved(); }
  void open(Id conversation);
  /// Opens a conversation so that this message is among those shown; 0: any. Says so if it is gone.
  void open_at(Id conversation, Id message);
  /// Opens one at the start, if it is still there and the user has opened no other.
  void reopen(Id conversation);
  /// An empty one, which is stored with its first message.
  void start_new();
  /// 0: a new one.
  Id current() const { return current_; }
  const std::string& title() const;
  /// Of one in the list; empty if it is not there.
  std::string title_of(Id conversation) const;
  void rename(Id conversation, std::string title);
  void pin(Id conversation, bool pinned);
  void remove(Id conversation);
  void restore(Id conversation);
  /// Brings back a message that was deleted with all after it, and shows it.
  void restore_message(Id conversation, Id message);
  void empty_trash();
  /// Adds the conversations of a file: the project's own, ChatGPT's or LM Studio's. Beside all
  /// else.
  void import(const std::string& path) { imports_.add(path); }
  /// Nothing: no file is being imported.
  std::optional<conversations::ImportQueue::Progress> importing() const {
    return imports_.progress();
  }
  void cancel_import() { imports_.cancel(); }
  /// Writes conversations to a file: as Markdown if its name ends in ".md" (one conversation), else
  /// as JSON. No ids: all. `done`: gets the result; without it a failure is told here.
  void export_to(const std::string& path, std::vector<Id> conversations,
                 std::function<void(const Status&)> done = {});
  /// Searches texts and titles; an empty query ends the search.
  void search(std::string query);
  bool is_searching() const { return !query_.empty(); }
  /// Whether hits() are those of the query.
  bool is_found() const { return found_ == query_; }
  const std::vector<conversations::Hit>& hits() const { return hits_; }

  // ---- Settings of the conversation that is shown

  const std::string& system_prompt() const { return system_prompt_; }
  const ChatSettings& settings() const { return settings_; }
  /// `conversation`: 0 for a new one, which is stored with its first message.
  void configure(Id conversation, std::string system_prompt, ChatSettings settings);
  /// Called when the user chooses another chat template while there is a model.
  std::function<void(const std::string&)> on_template;
  /// What new conversations begin with.
  void set_defaults(std::string system_prompt, ChatSettings settings);
  const std::vector<conversations::Preset>& presets() const { return presets_; }
  // What these replace or delete can be had back.
  void use_preset(const std::string& name);
  void save_preset(const std::string& name);
  void delete_preset(const std::string& name);

  // ---- Messages

  /// The messages that are shown, the first one first. Valid until the next call that is not const.
  const std::vector<ShownMessage>& shown() const { return shown_; }
  /// The versions of a message, the oldest first.
  std::vector<Id> siblings(Id message) const {
    return tree_ ? tree_->siblings(message) : std::vector<Id>();
  }
  /// Where a reader wants to be: a message that was opened, or the end where an answer begins.
  struct Target {
    Id message = 0;  ///< 0: the end
  };
  /// Told once.
  std::optional<Target> take_target() { return std::exchange(target_, std::nullopt); }
  /// Grows when shown() has changed other than by an answer that grows.
  int64_t revision() const { return revision_; }
  /// Whether there is a model and no answer is being generated here.
  bool can_send() const { return can_answer(current_); }
  bool is_answering() const { return is_answering(current_); }
  bool is_answering(Id conversation) const;
  /// Whether an answer was ended by a full context, since the program began.
  bool filled_context(Id message) const { return filled_.contains(message); }

  void send(std::string text);
  /// A text that was sent and is stored now; empty: there is none. Told once.
  std::string take_stored() { return std::exchange(stored_, {}); }
  /// A text that could not be stored and is given back; empty: there is none.
  std::string take_returned() { return std::exchange(returned_, {}); }
  /// The conversation that the new one has become with its first message; 0: none. Told once.
  Id take_begun() { return std::exchange(begun_, 0); }
  /// Stores another version. A question is answered again if there is a model that can. An answer
  /// that is being written is stopped first.
  void edit(Id message, std::string text);
  /// Answers a question that has no answer.
  void answer(Id message);
  void regenerate(Id message);
  /// Of the last message that is shown.
  void go_on(Id message);
  void stop();
  void select(Id message);
  /// An answer that is being written to it is stopped first.
  void remove_message(Id message);
  /// The result of a tool that the answer asked for. When all calls have results the model goes on.
  void set_tool_result(Id message, size_t call, std::string result);

  // ---- What is being typed

  void count(const std::string& draft);
  int64_t draft_tokens() const { return draft_tokens_; }
  int64_t context_used() const { return context_used_; }
  /// 0: nothing is known of these three.
  int64_t context() const { return context_; }

  // ---- A full context: what the user may choose from

  struct FullContext {
    Id message = 0;    ///< whose answer found no room
    Id continued = 0;  ///< the answer that was to be continued; 0: it was to be a new one
    bool last_message_alone = false;
  };
  const std::optional<FullContext>& full() const { return full_; }
  void drop_oldest_and_go_on();
  void dismiss_full() { full_.reset(); }

  // ---- Events

  void see(const EngineEvent& event);
  /// The model's name is stored with its answers; empty: there is no model. `chat_template`: the
  /// one that was chosen for it; empty: its own.
  void set_model(std::string name, std::string path, std::string chat_template);
  const std::string& model() const { return model_; }

 private:
  using Job = std::function<Result<conversations::Tree>(conversations::Store&)>;
  /// Runs the job, shows the conversation that it returns, then calls `then`.
  void change(Job job, std::function<void()> then = {}, std::function<void()> failed = {});
  /// `after`: so long a newer query is waited for.
  void search_again(std::chrono::milliseconds after = {});
  void see_import(const Result<conversations::ImportReport>& report);
  void show(conversations::Tree tree);
  void update_shown();
  void generate(const conversations::Tree& tree, bool continues);
  bool can_answer(Id conversation) const;
  /// Runs the job, which adds an answer or takes one up again, and generates into it.
  /// `failed`: called if the job cannot be done. `stored`: called if it is.
  void answer_after(Id conversation, Job job, bool continues = false,
                    std::function<void()> failed = {}, std::function<void()> stored = {});
  /// Calls `then` after the answer that is being written to a message, or is it, which is stopped.
  void after_answer_to(Id message, std::function<void()> then);
  void trash_message(Id conversation, Id message);
  /// A template that was chosen for another model gives way to the one of the model in use.
  void fit_template(ChatSettings& settings) const;
  void put_preset(conversations::Preset preset, std::function<void()> then = {});
  void edit_in(Id conversation, Id message, const std::string& text, bool answers);
  void see_part(const AnswerPart& part);
  void see_end(const AnswerEnded& ended);
  void note_dropped(int64_t messages);
  void forget_count();

  conversations::AsyncStore& store_;
  EngineHost& engine_;
  Toasts& toasts_;

  std::vector<conversations::Conversation> list_, trash_;
  bool knows_list_ = false;
  std::vector<conversations::TrashedMessage> trashed_messages_;
  std::vector<conversations::Preset> presets_;
  std::vector<conversations::Hit> hits_;
  std::string query_, found_, unsaved_;

  Id current_ = 0;
  std::optional<conversations::Tree> tree_;
  std::vector<ShownMessage> shown_;
  int64_t revision_ = 0;
  std::string system_prompt_;
  ChatSettings settings_;

  std::map<Id, LiveAnswer> live_;  ///< by conversation
  /// By conversation: what follows the end of its answer.
  std::map<Id, std::function<void()>> after_end_;
  std::optional<FullContext> full_;
  std::set<Id> filled_;  ///< answers that a full context ended
  std::string model_, model_path_, model_template_;
  int64_t count_request_ = 0;
  int64_t draft_tokens_ = 0, context_used_ = 0, context_ = 0;
  std::string new_system_prompt_;  ///< of new conversations
  ChatSettings new_settings_;
  std::string returned_, stored_;
  Id begun_ = 0;
  int64_t navigation_ = 0;  ///< grows when the user goes somewhere else
  int64_t dropped_ = 0;     ///< messages that the model did not see, of the conversation shown
  bool sending_ = false;    ///< an answer is about to be generated
  std::optional<Target> target_;
  conversations::ImportQueue imports_;  // the last member: it ends first
};

}  // namespace infer::gui
