// Messages that are sent, and the answers to them.
#include <algorithm>
#include <utility>

#include "gui/state/chat_messages.h"
#include "gui/state/chat_state.h"

namespace infer::gui {
namespace {

using conversations::Conversation;
using conversations::NewMessage;
using conversations::Role;
using conversations::State;
using conversations::Store;

/// Adds an empty answer below a message, which the model is about to write.
Status add_answer(Store& store, Id conversation, Id parent, const std::string& model) {
  NewMessage answer;
  answer.parent = parent;
  answer.role = Role::assistant;
  answer.state = State::writing;
  answer.model = model;
  const auto begun = store.add(conversation, answer);
  return begun ? Status() : begun.error();
}

/// Makes the changes together; the conversation after them.
Result<Tree> change_together(Store& store, const Id& conversation,
                             const std::function<Status()>& work) {
  if (Status status = store.together(work); !status.ok()) return tl::unexpected(std::move(status));
  return store.load(conversation);
}

/// The statistics of an answer and of what was added to it later.
conversations::Statistics sum_of(const conversations::Statistics& first,
                                 const conversations::Statistics& more) {
  if (first.generated_tokens == 0) return more;
  conversations::Statistics sum = first;
  sum.generated_tokens += more.generated_tokens;
  if (more.generate_rate > 0) sum.generate_rate = more.generate_rate;
  return sum;
}

}  // namespace

bool ChatState::can_answer(Id conversation) const {
  return !model_.empty() && !live_.contains(conversation) && !sending_;
}

bool ChatState::is_answering(Id conversation) const {
  const auto live = live_.find(conversation);
  return live != live_.end() && !live->second.ended;
}

void ChatState::answer_after(Id conversation, Job job, bool continues, std::function<void()> failed,
                             std::function<void()> stored) {
  if (!can_answer(conversation)) {
    if (failed) failed();
    return;
  }
  sending_ = true;
  // Where the user has gone meanwhile stays.
  const bool shows = conversation == current_;
  if (shows) full_.reset();
  const int64_t number = shows ? ++navigation_ : -1;
  store_.call(std::move(job), [this, number, continues, failed = std::move(failed),
                               stored = std::move(stored)](Result<Tree> tree) {
    sending_ = false;
    if (!tree) {
      toasts_.fail(tree.error());
      if (failed) failed();
      return;
    }
    if (stored) stored();
    generate(*tree, continues);
    if (number == navigation_) {
      if (current_ == 0) begun_ = tree->conversation().id;
      show(*std::move(tree));
      target_ = Target{};
    }
    refresh();
  });
}

/// Generates into the last message that is shown.
void ChatState::generate(const Tree& tree, bool continues) {
  std::vector<Id> path = tree.shown();
  if (path.empty()) return;
  const conversations::Message& into = *tree.find(path.back());
  LiveAnswer live;
  live.message = into.id;
  live.text = into.text;
  live.reasoning = into.reasoning;
  live.calls = into.tool_calls;
  live.before = into.statistics;
  live.continues = continues;
  live_[tree.conversation().id] = std::move(live);
  if (!continues) path.pop_back();
  ChatSettings settings = settings_of(tree.conversation().settings).value_or(settings_);
  fit_template(settings);
  AnswerRequest request;
  request.conversation = tree.conversation().id;
  request.form = form_of(settings);
  request.messages = messages_of(tree, path, tree.conversation().system_prompt);
  request.continues = continues;
  request.options = settings.options();
  engine_.answer(std::move(request));
}

void ChatState::send(std::string text) {
  Conversation wanted;
  wanted.title = gui::title_of(text);
  wanted.system_prompt = system_prompt_;
  wanted.settings = text_of(settings_);
  const Id parent = shown_.empty() ? 0 : shown_.back().message->id;
  const auto job = [id = current_, parent, wanted = std::move(wanted), text,
                    model = model_](Store& store) -> Result<Tree> {
    Id conversation = id;
    return change_together(store, conversation, [&]() -> Status {
      if (conversation == 0) {
        const Result<Conversation> made = store.create(wanted);
        if (!made) return made.error();
        conversation = made->id;
      }
      NewMessage question;
      question.parent = parent;
      question.text = text;
      const auto asked = store.add(conversation, question);
      if (!asked) return asked.error();
      return add_answer(store, conversation, asked->id, model);
    });
  };
  answer_after(current_, job, false, {}, [this, text] { stored_ = text; });
}

void ChatState::edit(Id message, std::string text) {
  const conversations::Message* const old = tree_ ? tree_->find(message) : nullptr;
  if (old == nullptr) return;
  const bool question = old->role == Role::user;
  const auto edit = [this, id = current_, message, text, question] {
    // Without a model the new text is kept, and can be answered later.
    edit_in(id, message, text, question && can_answer(id));
  };
  if (!question) return after_answer_to(message, edit);
  if (model_.empty() || !live_.contains(current_)) return edit();
  after_end_[current_] = edit;
  engine_.stop(current_);
}

void ChatState::edit_in(Id conversation, Id message, const std::string& text, bool answers) {
  const auto change_text = [id = conversation, message, text, model = model_,
                            answers](Store& store) -> Result<Tree> {
    return change_together(store, id, [&]() -> Status {
      const auto edited = store.edit(message, text);
      if (!edited) return edited.error();
      return answers ? add_answer(store, id, edited->id, model) : Status();
    });
  };
  const auto failed = [this, text] { returned_ = text; };
  if (answers) {
    answer_after(conversation, change_text, false, failed);
  } else if (conversation == current_) {
    change(change_text, {}, failed);
  } else {
    store_.call(change_text, [this, failed](const Result<Tree>& tree) {
      if (tree) return;
      toasts_.fail(tree.error());
      failed();
    });
  }
}

void ChatState::answer(Id message) {
  answer_after(current_, [id = current_, message, model = model_](Store& store) -> Result<Tree> {
    return change_together(store, id, [&] { return add_answer(store, id, message, model); });
  });
}

void ChatState::regenerate(Id message) {
  answer_after(current_, [id = current_, message, model = model_](Store& store) -> Result<Tree> {
    const auto begun = store.regenerate(message, model);
    if (!begun) return tl::unexpected(begun.error());
    return store.load(id);
  });
}

void ChatState::go_on(Id message) {
  if (shown_.empty() || shown_.back().message->id != message) return;
  answer_after(
      current_,
      [id = current_, message](Store& store) -> Result<Tree> {
        if (Status status = store.resume(message); !status.ok()) {
          return tl::unexpected(std::move(status));
        }
        return store.load(id);
      },
      true);
}

void ChatState::stop() { engine_.stop(current_); }

void ChatState::set_tool_result(Id message, size_t call, std::string result) {
  const conversations::Message* const asks = tree_ ? tree_->find(message) : nullptr;
  if (asks == nullptr || call >= asks->tool_calls.size()) return;
  std::vector<conversations::ToolCall> calls = asks->tool_calls;
  calls[call].result = std::move(result);
  const bool complete = std::ranges::none_of(
      calls, [](const conversations::ToolCall& c) { return c.result.empty(); });
  const bool answers = complete && can_send();
  const auto keep = [id = current_, message, calls, answers, statistics = asks->statistics,
                     model = model_](Store& store) -> Result<Tree> {
    return change_together(store, id, [&]() -> Status {
      if (Status kept = store.finish(message, {State::complete, calls, statistics}); !kept.ok()) {
        return kept;
      }
      return answers ? add_answer(store, id, message, model) : Status();
    });
  };
  if (answers) {
    answer_after(current_, keep);
  } else {
    change(keep);
  }
}

void ChatState::drop_oldest_and_go_on() {
  if (!full_ || !can_send()) return;
  const FullContext full = *full_;
  // Only the last message can be continued, and another version may be shown by now.
  if (full.continued != 0 && (shown_.empty() || shown_.back().message->id != full.continued)) {
    return full_.reset();
  }
  settings_.drop_oldest = true;
  answer_after(
      current_,
      [id = current_, full, model = model_, prompt = system_prompt_,
       text = text_of(settings_)](Store& store) -> Result<Tree> {
        return change_together(store, id, [&]() -> Status {
          if (Status kept = store.configure(id, prompt, text, {}); !kept.ok()) return kept;
          return full.continued != 0 ? store.resume(full.continued)
                                     : add_answer(store, id, full.message, model);
        });
      },
      full.continued != 0);
}

// ---- Events

void ChatState::see(const EngineEvent& event) {
  if (const auto* part = std::get_if<AnswerPart>(&event)) {
    see_part(*part);
  } else if (const auto* ended = std::get_if<AnswerEnded>(&event)) {
    see_end(*ended);
  } else if (const auto* counted = std::get_if<Counted>(&event)) {
    if (counted->request != count_request_) return;
    if (!counted->status.ok()) return forget_count();
    draft_tokens_ = counted->draft_tokens;
    context_used_ = counted->tokens;
    context_ = counted->context;
  }
}

void ChatState::see_part(const AnswerPart& event) {
  const auto found = live_.find(event.conversation);
  if (found == live_.end()) return;
  LiveAnswer& live = found->second;
  ++live.revision;
  const OutputEvent& part = event.part;
  switch (part.kind) {
    case OutputEvent::Kind::content:
      live.text += part.text;
      store_.append(live.message, part.text, {});
      break;
    case OutputEvent::Kind::reasoning:
      live.reasoning += part.text;
      store_.append(live.message, {}, part.text);
      break;
    case OutputEvent::Kind::tool_call:
      live.calls.push_back({part.call.id, part.call.name, part.call.arguments, {}});
      break;
  }
}

void ChatState::see_end(const AnswerEnded& ended) {
  const auto found = live_.find(ended.conversation);
  if (found == live_.end()) return;
  LiveAnswer& live = found->second;
  live.ended = true;  // it is shown until the store has it
  const bool whole = ended.status.ok() && ended.result.reason == FinishReason::stop;
  const bool no_room = !ended.status.ok() && ended.full != AnswerEnded::Full::nothing;
  if (ended.result.reason == FinishReason::context || (no_room && live.continues)) {
    filled_.insert(live.message);
  } else {
    filled_.erase(live.message);
  }
  const bool empty = live.text.empty() && live.reasoning.empty() && live.calls.empty();
  const bool shown = ended.conversation == current_;
  if (ended.context > 0 && shown) {
    context_ = ended.context;
    context_used_ = ended.context_used;
  }
  if (!ended.status.ok()) {
    if (no_room && shown && tree_) {
      const conversations::Message* const answer = tree_->find(live.message);
      full_ = FullContext{answer == nullptr ? 0 : answer->parent, live.continues ? live.message : 0,
                          ended.full == AnswerEnded::Full::last_message};
    } else {
      toasts_.fail(ended.status);
    }
  }
  const auto finish = [conversation = ended.conversation, message = live.message,
                       calls = live.calls, whole, drop = empty && !ended.status.ok(),
                       statistics = sum_of(live.before, statistics_of(ended.result))](
                          Store& store) -> Result<Tree> {
    Status status =
        store.finish(message, {whole ? State::complete : State::stopped, calls, statistics});
    // Nothing came of it: the question stays, without an empty answer. The trash has only what the
    // user deletes.
    if (status.ok() && drop) status = store.delete_if_empty(message);
    if (!status.ok()) return tl::unexpected(std::move(status));
    return store.load(conversation);
  };
  // While the disk is full the answer stays on the screen as it is.
  store_.keep(finish, [this, conversation = ended.conversation](Result<Tree> tree) {
    live_.erase(conversation);
    if (!tree) {
      toasts_.fail(tree.error());
      update_shown();
    } else if (conversation == current_) {
      show(*std::move(tree));
    }
    refresh();
    if (const auto next = after_end_.extract(conversation)) next.mapped()();
  });
  if (shown) note_dropped(ended.dropped_messages);
}

/// Says so once for each message that the model no longer sees.
void ChatState::note_dropped(int64_t messages) {
  if (messages > std::exchange(dropped_, messages)) {
    toasts_.tell(std::to_string(messages) + (messages == 1 ? " message" : " messages") +
                 " at the beginning did not fit into the context: the model does not see " +
                 (messages == 1 ? "it." : "them."));
  }
}

}  // namespace infer::gui
