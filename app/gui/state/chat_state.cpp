#include "gui/state/chat_state.h"

#include <algorithm>
#include <utility>

#include "conversations/export.h"
#include "conversations/export_file.h"
#include "conversations/import.h"

namespace infer::gui {
namespace {

using conversations::Conversation;
using conversations::NewMessage;
using conversations::Role;
using conversations::State;
using conversations::Store;
using conversations::Tree;

constexpr size_t kTitleBytes = 60;

/// The first line of a text, cut between two characters.
std::string title_of(const std::string& text) {
  const size_t start = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  std::string title = text.substr(start, text.find_first_of("\r\n", start) - start);
  if (title.size() <= kTitleBytes) return title.empty() ? "New conversation" : title;
  size_t end = kTitleBytes;
  while (end > 0 && (static_cast<unsigned char>(title[end]) & 0xC0) == 0x80) --end;
  if (const size_t space = title.rfind(' ', end); space != std::string::npos && space > end / 2) {
    end = space;
  }
  return title.substr(0, end) + "…";
}

conversations::Statistics statistics_of(const GenerateResult& result) {
  const auto rate = [](int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  };
  return {result.prompt_tokens, result.generated_tokens,
          rate(result.prompt_tokens - result.reused_tokens, result.prompt_seconds),
          rate(result.generated_tokens, result.generate_seconds), result.first_token_seconds};
}

/// The messages of a conversation as the model gets them, up to and with the last of `path`.
std::vector<gui::Message> messages_of(const Tree& tree, const std::vector<Id>& path) {
  std::vector<gui::Message> messages;
  if (!tree.conversation().system_prompt.empty()) {
    messages.push_back({"system", tree.conversation().system_prompt, {}, {}, {}, {}});
  }
  for (const Id id : path) {
    const conversations::Message& from = *tree.find(id);
    gui::Message message{
        conversations::role_name(from.role), from.text, from.reasoning, {}, {}, {}};
    for (const conversations::ToolCall& call : from.tool_calls) {
      message.calls.push_back({call.id, call.name, call.arguments});
    }
    messages.push_back(std::move(message));
    for (const conversations::ToolCall& call : from.tool_calls) {
      if (call.result.empty()) continue;
      messages.push_back({"tool", call.result, {}, {}, call.id, call.name});
    }
  }
  return messages;
}

ChatForm form_of(const ChatSettings& settings) {
  return {{}, settings.tools, settings.template_variables()};
}

}  // namespace

ChatState::ChatState(conversations::AsyncStore& store, EngineHost& engine, Toasts& toasts)
    : store_(store), engine_(engine), toasts_(toasts) {}

// ---- Conversations

void ChatState::refresh() {
  store_.call([](Store& store) { return store.list(); },
              [this](Result<std::vector<Conversation>> list) {
                if (!list) return toasts_.fail(list.error());
                list_ = *std::move(list);
              });
  store_.call([](Store& store) { return store.trash(); },
              [this](Result<std::vector<Conversation>> trash) {
                if (trash) trash_ = *std::move(trash);
              });
  store_.call([](Store& store) { return store.presets(); },
              [this](Result<std::vector<conversations::Preset>> presets) {
                if (presets) presets_ = *std::move(presets);
              });
}

void ChatState::change(Job job, std::function<void()> then) {
  const int64_t number = ++opening_;
  store_.call(std::move(job), [this, number, then = std::move(then)](Result<Tree> tree) {
    if (!tree) return toasts_.fail(tree.error());
    // Meanwhile the user may have opened another one.
    if (number == opening_) show(*std::move(tree));
    refresh();
    if (then) then();
  });
}

void ChatState::show(Tree tree) {
  const Conversation& conversation = tree.conversation();
  if (current_ != conversation.id) full_.reset();
  current_ = conversation.id;
  system_prompt_ = conversation.system_prompt;
  settings_ = settings_of(conversation.settings).value_or(ChatSettings{});
  tree_ = std::move(tree);
  update_shown();
}

void ChatState::update_shown() {
  shown_.clear();
  ++revision_;
  if (!tree_) return;
  const auto live = live_.find(current_);
  for (const Id id : tree_->shown()) {
    ShownMessage shown;
    shown.message = tree_->find(id);
    if (live != live_.end() && live->second.message == id) shown.live = &live->second;
    const std::vector<Id>& siblings = tree_->siblings(id);
    shown.place = static_cast<size_t>(std::ranges::find(siblings, id) - siblings.begin());
    shown.alternatives = siblings.size();
    shown_.push_back(shown);
  }
}

void ChatState::open(Id conversation) {
  change([conversation](Store& store) { return store.load(conversation); });
}

void ChatState::open_at(Id conversation, Id message) {
  change(
      [conversation, message](Store& store) -> Result<Tree> {
        const Result<Tree> tree = store.load(conversation);
        if (!tree || tree->find(message) == nullptr) return tree;
        const Status status = store.together([&]() -> Status {
          for (const Id id : tree->path_to(message)) {
            if (Status selected = store.select(id); !selected.ok()) return selected;
          }
          return {};
        });
        if (!status.ok()) return tl::unexpected(status);
        return store.load(conversation);
      },
      [this, conversation, message] {
        if (conversation == current_) target_ = Target{message};
      });
}

void ChatState::start_new() {
  ++opening_;
  current_ = 0;
  tree_.reset();
  full_.reset();
  draft_tokens_ = context_used_ = 0;
  update_shown();
}

const std::string& ChatState::title() const {
  static const std::string none;
  return tree_ ? tree_->conversation().title : none;
}

void ChatState::rename(Id conversation, std::string title) {
  store_.call([conversation, title = std::move(title)](
                  Store& store) { return store.rename(conversation, title); },
              [this](const Status& status) {
                if (!status.ok()) toasts_.fail(status);
                refresh();
              });
  if (conversation == current_) open(conversation);
}

void ChatState::pin(Id conversation, bool pinned) {
  store_.call([=](Store& store) { return store.set_pinned(conversation, pinned); },
              [this](const Status& status) {
                if (!status.ok()) toasts_.fail(status);
                refresh();
              });
}

void ChatState::remove(Id conversation) {
  engine_.stop(conversation);
  engine_.forget(conversation);
  store_.call([conversation](Store& store) { return store.move_to_trash(conversation); },
              [this, conversation](const Status& status) {
                if (!status.ok()) return toasts_.fail(status);
                if (conversation == current_) start_new();
                refresh();
                toasts_.tell("The conversation is in the trash.", "Undo",
                             [this, conversation] { restore(conversation); });
              });
}

void ChatState::restore(Id conversation) {
  store_.call([conversation](Store& store) { return store.restore(conversation); },
              [this, conversation](const Status& status) {
                if (!status.ok()) return toasts_.fail(status);
                refresh();
                open(conversation);
              });
}

void ChatState::empty_trash() {
  constexpr conversations::Time kEnd = INT64_MAX;
  store_.call([](Store& store) { return store.empty_trash(kEnd); },
              [this](const Result<int64_t>& count) {
                if (!count) return toasts_.fail(count.error());
                refresh();
                toasts_.tell(std::to_string(*count) + " conversations were deleted for good.");
              });
}

void ChatState::import(const std::string& path) {
  store_.call([path](Store& store) { return conversations::import_file(store, path); },
              [this, path](const Result<conversations::ImportReport>& report) {
                if (!report) return toasts_.fail(report.error());
                refresh();
                const bool one = report->conversations == 1;
                toasts_.tell(std::to_string(report->conversations) +
                             (one ? " conversation of " : " conversations of ") + report->format +
                             (one ? " was imported." : " were imported."));
              });
}

void ChatState::export_to(const std::string& path, std::vector<Id> conversations) {
  store_.call(
      [path, conversations = std::move(conversations)](Store& store) -> Status {
        if (!path.ends_with(".md")) return conversations::export_file(store, conversations, path);
        if (conversations.size() != 1) {
          return {StatusCode::invalid_argument, "Markdown holds one conversation: choose one"};
        }
        return conversations::export_markdown_file(store, conversations.front(), path);
      },
      [this, path](const Status& status) {
        if (!status.ok()) return toasts_.fail(status);
        toasts_.tell("Written to " + path + ".");
      });
}

void ChatState::search(std::string query) {
  if (query == query_) return;
  query_ = std::move(query);
  if (query_.empty()) return hits_.clear();
  store_.call([query = query_](Store& store) { return store.search(query); },
              [this, query = query_](Result<std::vector<conversations::Hit>> hits) {
                if (query != query_) return;  // a newer one follows
                if (!hits) return toasts_.fail(hits.error());
                hits_ = *std::move(hits);
              });
}

// ---- Settings

void ChatState::configure(std::string system_prompt, ChatSettings settings) {
  system_prompt_ = std::move(system_prompt);
  settings_ = std::move(settings);
  if (current_ == 0) return;
  change([id = current_, prompt = system_prompt_,
          text = text_of(settings_)](Store& store) -> Result<Tree> {
    if (Status status = store.configure(id, prompt, text, {}); !status.ok()) {
      return tl::unexpected(std::move(status));
    }
    return store.load(id);
  });
}

void ChatState::use_preset(const std::string& name) {
  const auto preset = std::ranges::find(presets_, name, &conversations::Preset::name);
  if (preset == presets_.end()) return;
  Result<ChatSettings> settings = settings_of(preset->settings);
  if (!settings) return toasts_.fail(settings.error());
  configure(preset->system_prompt, *std::move(settings));
}

void ChatState::save_preset(const std::string& name) {
  store_.call([preset = conversations::Preset{name, system_prompt_, text_of(settings_)}](
                  Store& store) { return store.save_preset(preset); },
              [this, name](const Status& status) {
                if (!status.ok()) return toasts_.fail(status);
                refresh();
                toasts_.tell("The preset \"" + name + "\" is saved.");
              });
}

void ChatState::delete_preset(const std::string& name) {
  store_.call([name](Store& store) { return store.delete_preset(name); },
              [this](const Status& status) {
                if (!status.ok()) toasts_.fail(status);
                refresh();
              });
}

// ---- Messages

bool ChatState::can_send() const { return !model_.empty() && !is_answering() && !sending_; }

void ChatState::answer_after(Job job, bool continues) {
  if (!can_send()) return;
  sending_ = true;
  full_.reset();
  const int64_t number = ++opening_;
  store_.call(std::move(job), [this, number, continues](Result<Tree> tree) {
    sending_ = false;
    if (!tree) return toasts_.fail(tree.error());
    generate(*tree, continues);
    if (number == opening_) {
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
  live_[tree.conversation().id] = std::move(live);
  if (!continues) path.pop_back();
  const ChatSettings settings = settings_of(tree.conversation().settings).value_or(ChatSettings{});
  AnswerRequest request;
  request.conversation = tree.conversation().id;
  request.form = form_of(settings);
  request.messages = messages_of(tree, path);
  request.continues = continues;
  request.options = settings.options();
  engine_.answer(std::move(request));
}

void ChatState::send(std::string text) {
  Conversation wanted;
  wanted.title = title_of(text);
  wanted.system_prompt = system_prompt_;
  wanted.settings = text_of(settings_);
  const Id parent = shown_.empty() ? 0 : shown_.back().message->id;
  answer_after([id = current_, parent, wanted = std::move(wanted), text = std::move(text),
                model = model_](Store& store) -> Result<Tree> {
    Id conversation = id;
    Status status = store.together([&]() -> Status {
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
      NewMessage answer;
      answer.parent = asked->id;
      answer.role = Role::assistant;
      answer.state = State::writing;
      answer.model = model;
      const auto begun = store.add(conversation, answer);
      return begun ? Status() : begun.error();
    });
    if (!status.ok()) return tl::unexpected(std::move(status));
    return store.load(conversation);
  });
}

void ChatState::edit(Id message, std::string text) {
  const conversations::Message* const old = tree_ ? tree_->find(message) : nullptr;
  if (old == nullptr) return;
  const auto change_text = [id = current_, message, text = std::move(text), model = model_,
                            answers = old->role == Role::user](Store& store) -> Result<Tree> {
    Status status = store.together([&]() -> Status {
      const auto edited = store.edit(message, text);
      if (!edited) return edited.error();
      if (!answers) return {};
      NewMessage answer;
      answer.parent = edited->id;
      answer.role = Role::assistant;
      answer.state = State::writing;
      answer.model = model;
      const auto begun = store.add(id, answer);
      return begun ? Status() : begun.error();
    });
    if (!status.ok()) return tl::unexpected(std::move(status));
    return store.load(id);
  };
  if (old->role == Role::user) {
    answer_after(change_text);
  } else {
    change(change_text);  // an answer in the user's words
  }
}

void ChatState::regenerate(Id message) {
  answer_after([id = current_, message, model = model_](Store& store) -> Result<Tree> {
    const auto begun = store.regenerate(message, model);
    if (!begun) return tl::unexpected(begun.error());
    return store.load(id);
  });
}

void ChatState::go_on(Id message) {
  answer_after(
      [id = current_, message](Store& store) -> Result<Tree> {
        if (Status status = store.resume(message); !status.ok()) {
          return tl::unexpected(std::move(status));
        }
        return store.load(id);
      },
      true);
}

void ChatState::stop() { engine_.stop(current_); }

void ChatState::select(Id message) {
  change([id = current_, message](Store& store) -> Result<Tree> {
    if (Status status = store.select(message); !status.ok()) {
      return tl::unexpected(std::move(status));
    }
    return store.load(id);
  });
}

void ChatState::remove_message(Id message) {
  const auto reload = [this](Status (Store::*what)(Id), Id which, std::function<void()> then) {
    change(
        [id = current_, what, which](Store& store) -> Result<Tree> {
          if (Status status = (store.*what)(which); !status.ok()) {
            return tl::unexpected(std::move(status));
          }
          return store.load(id);
        },
        std::move(then));
  };
  reload(&Store::move_message_to_trash, message, [this, message, reload] {
    toasts_.tell("The message and all after it are in the trash.", "Undo",
                 [message, reload] { reload(&Store::restore_message, message, {}); });
  });
}

void ChatState::set_tool_result(Id message, size_t call, std::string result) {
  const conversations::Message* const asks = tree_ ? tree_->find(message) : nullptr;
  if (asks == nullptr || call >= asks->tool_calls.size()) return;
  std::vector<conversations::ToolCall> calls = asks->tool_calls;
  calls[call].result = std::move(result);
  const bool complete = std::ranges::none_of(
      calls, [](const conversations::ToolCall& c) { return c.result.empty(); });
  const auto keep = [id = current_, message, calls, complete, statistics = asks->statistics,
                     model = model_](Store& store) -> Result<Tree> {
    Status status = store.together([&]() -> Status {
      if (Status kept = store.finish(message, {State::complete, calls, statistics}); !kept.ok()) {
        return kept;
      }
      if (!complete) return {};
      NewMessage answer;
      answer.parent = message;
      answer.role = Role::assistant;
      answer.state = State::writing;
      answer.model = model;
      const auto begun = store.add(id, answer);
      return begun ? Status() : begun.error();
    });
    if (!status.ok()) return tl::unexpected(std::move(status));
    return store.load(id);
  };
  if (complete) {
    answer_after(keep);
  } else {
    change(keep);
  }
}

// ---- What is being typed

void ChatState::count(const std::string& draft) {
  if (model_.empty()) return;
  CountRequest request;
  request.request = ++count_request_;
  request.form = form_of(settings_);
  if (tree_) request.messages = messages_of(*tree_, tree_->shown());
  request.draft = draft;
  engine_.count(std::move(request));
}

// ---- A full context

void ChatState::drop_oldest_and_go_on() {
  if (!full_ || !can_send()) return;
  const Id message = full_->message;
  settings_.drop_oldest = true;
  answer_after([id = current_, message, model = model_, prompt = system_prompt_,
                text = text_of(settings_)](Store& store) -> Result<Tree> {
    Status status = store.together([&]() -> Status {
      if (Status kept = store.configure(id, prompt, text, {}); !kept.ok()) return kept;
      NewMessage answer;
      answer.parent = message;
      answer.role = Role::assistant;
      answer.state = State::writing;
      answer.model = model;
      const auto begun = store.add(id, answer);
      return begun ? Status() : begun.error();
    });
    if (!status.ok()) return tl::unexpected(std::move(status));
    return store.load(id);
  });
}

// ---- Events

void ChatState::set_model(std::string name) {
  model_ = std::move(name);
  ++revision_;
}

void ChatState::see(const EngineEvent& event) {
  if (const auto* part = std::get_if<AnswerPart>(&event)) {
    see_part(*part);
  } else if (const auto* ended = std::get_if<AnswerEnded>(&event)) {
    see_end(*ended);
  } else if (const auto* counted = std::get_if<Counted>(&event)) {
    if (counted->request != count_request_ || !counted->status.ok()) return;
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
  const LiveAnswer live = std::move(found->second);
  live_.erase(found);
  const bool whole = ended.status.ok() && ended.result.reason == FinishReason::stop;
  const bool empty = live.text.empty() && live.reasoning.empty() && live.calls.empty();
  const bool shown = ended.conversation == current_;
  if (ended.context > 0) {
    context_ = ended.context;
    if (shown) context_used_ = ended.context_used;
  }
  if (!ended.status.ok()) {
    if (ended.full != AnswerEnded::Full::nothing && shown && tree_) {
      const conversations::Message* const answer = tree_->find(live.message);
      full_ = FullContext{answer == nullptr ? 0 : answer->parent,
                          ended.full == AnswerEnded::Full::last_message};
    } else {
      toasts_.fail(ended.status);
    }
  }
  const auto finish = [conversation = ended.conversation, message = live.message,
                       calls = live.calls, whole, drop = empty && !ended.status.ok(),
                       statistics = statistics_of(ended.result)](Store& store) -> Result<Tree> {
    Status status =
        store.finish(message, {whole ? State::complete : State::stopped, calls, statistics});
    // Nothing came of it: the question stays, without an empty answer.
    if (status.ok() && drop) status = store.move_message_to_trash(message);
    if (!status.ok()) return tl::unexpected(std::move(status));
    return store.load(conversation);
  };
  if (shown) {
    change(finish);
  } else {
    store_.call(finish, [this](const Result<Tree>& tree) {
      if (!tree) toasts_.fail(tree.error());
      refresh();
    });
  }
  if (shown) update_shown();
}

}  // namespace infer::gui
