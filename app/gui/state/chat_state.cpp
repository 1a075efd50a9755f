#include "gui/state/chat_state.h"

#include <algorithm>
#include <utility>

#include "conversations/export.h"
#include "conversations/export_file.h"
#include "gui/state/chat_messages.h"

namespace infer::gui {
namespace {

using conversations::Conversation;
using conversations::Store;

tl::unexpected<Status> gone(const std::string& what) {
  return tl::unexpected(Status(StatusCode::not_found, "The " + what + " was deleted meanwhile."));
}

}  // namespace

ChatState::ChatState(conversations::AsyncStore& store, EngineHost& engine, Toasts& toasts)
    : store_(store),
      engine_(engine),
      toasts_(toasts),
      imports_(store, [this](const auto& report) { see_import(report); }) {}

// ---- Conversations

void ChatState::refresh() {
  store_.call([](Store& store) { return store.list(); },
              [this](Result<std::vector<Conversation>> list) {
                if (!list) return toasts_.fail(list.error());
                list_ = *std::move(list);
                knows_list_ = true;
              });
  store_.call([](Store& store) { return store.trash(); },
              [this](Result<std::vector<Conversation>> trash) {
                if (trash) trash_ = *std::move(trash);
              });
  store_.call([](Store& store) { return store.trashed_messages(); },
              [this](Result<std::vector<conversations::TrashedMessage>> messages) {
                if (messages) trashed_messages_ = *std::move(messages);
              });
  store_.call([](Store& store) { return store.presets(); },
              [this](Result<std::vector<conversations::Preset>> presets) {
                if (presets) presets_ = *std::move(presets);
              });
  search_again();
}

void ChatState::change(Job job, std::function<void()> then, std::function<void()> failed) {
  store_.call(std::move(job), [this, number = navigation_, then = std::move(then),
                               failed = std::move(failed)](Result<Tree> tree) {
    if (!tree) {
      toasts_.fail(tree.error());
      if (failed) failed();
      return;
    }
    // Meanwhile the user may have opened another one.
    if (number == navigation_) show(*std::move(tree));
    refresh();
    if (then) then();
  });
}

void ChatState::show(Tree tree) {
  const Conversation& conversation = tree.conversation();
  if (current_ != conversation.id) {
    forget_count();
    full_.reset();
    dropped_ = 0;
    system_prompt_ = conversation.system_prompt;
    Result<ChatSettings> settings = settings_of(conversation.settings);
    if (!settings) {
      toasts_.fail("This conversation has the usual settings, because its own cannot be read: " +
                   settings.error().message());
    }
    settings_ = settings.value_or(ChatSettings());
    fit_template(settings_);
  }
  current_ = conversation.id;
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
  ++navigation_;
  change([conversation](Store& store) { return store.load(conversation); });
}

void ChatState::open_at(Id conversation, Id message) {
  ++navigation_;
  change(
      [conversation, message](Store& store) -> Result<Tree> {
        const Result<Tree> tree = store.load(conversation);
        if (!tree) return tree;
        if (tree->conversation().deleted_at != 0) return gone("conversation");
        if (message == 0) return tree;
        if (tree->find(message) == nullptr) return gone("message");
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
      },
      [this] { refresh(); });
}

void ChatState::reopen(Id conversation) {
  store_.call([conversation](Store& store) { return store.load(conversation); },
              [this](Result<Tree> tree) {
                const bool there = tree && tree->conversation().deleted_at == 0;
                if (there && navigation_ == 0) show(*std::move(tree));
              });
}

void ChatState::start_new() {
  ++navigation_;
  current_ = 0;
  system_prompt_ = new_system_prompt_;
  settings_ = new_settings_;
  tree_.reset();
  full_.reset();
  forget_count();
  update_shown();
}

void ChatState::set_defaults(std::string system_prompt, ChatSettings settings) {
  // A new conversation that the user has not configured follows.
  const bool follows = current_ == 0 && system_prompt_ == new_system_prompt_ &&
                       text_of(settings_) == text_of(new_settings_);
  new_system_prompt_ = std::move(system_prompt);
  new_settings_ = std::move(settings);
  fit_template(new_settings_);
  if (!follows) return;
  system_prompt_ = new_system_prompt_;
  settings_ = new_settings_;
  ++revision_;
}

const std::string& ChatState::title() const {
  static const std::string none;
  return tree_ ? tree_->conversation().title : none;
}

std::string ChatState::title_of(Id conversation) const {
  const auto found = std::ranges::find(list_, conversation, &Conversation::id);
  return found == list_.end() ? std::string() : found->title;
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
  after_end_.erase(conversation);
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

void ChatState::restore_message(Id conversation, Id message) {
  store_.call([message](Store& store) { return store.restore_message(message); },
              [this, conversation, message](const Status& status) {
                if (!status.ok()) return toasts_.fail(status);
                open_at(conversation, message);
              });
}

void ChatState::empty_trash() {
  constexpr conversations::Time kEnd = INT64_MAX;
  store_.call([](Store& store) { return store.empty_trash(kEnd); },
              [this](const Result<int64_t>& count) {
                if (!count) return toasts_.fail(count.error());
                refresh();
                toasts_.tell("The trash is empty.");
              });
}

void ChatState::see_import(const Result<conversations::ImportReport>& report) {
  if (!report && report.error().code() == StatusCode::cancelled) {
    return toasts_.tell("The import was cancelled: nothing of it is kept.");
  }
  if (!report) return toasts_.fail(report.error());
  refresh();
  const bool one = report->conversations == 1;
  toasts_.tell(std::to_string(report->conversations) +
               (one ? " conversation of " : " conversations of ") + report->format +
               (one ? " was imported." : " were imported."));
}

void ChatState::export_to(const std::string& path, std::vector<Id> conversations,
                          std::function<void(const Status&)> done) {
  store_.call(
      [path, conversations = std::move(conversations)](Store& store) -> Status {
        if (!path.ends_with(".md")) return conversations::export_file(store, conversations, path);
        if (conversations.size() != 1) {
          return {StatusCode::invalid_argument, "Markdown holds one conversation: choose one"};
        }
        return conversations::export_markdown_file(store, conversations.front(), path);
      },
      [this, path, done = std::move(done)](const Status& status) {
        if (done) done(status);
        if (!status.ok()) return done ? void() : toasts_.fail(status);
        toasts_.tell("Written to " + path + ".");
      });
}

void ChatState::search(std::string query) {
  constexpr std::chrono::milliseconds kTyping{150};  // another letter most often follows by then
  if (query == query_) return;
  query_ = std::move(query);
  hits_.clear();
  found_.clear();
  search_again(kTyping);
}

void ChatState::search_again(std::chrono::milliseconds after) {
  if (query_.empty()) return;
  store_.search(query_, after,
                [this, query = query_](Result<std::vector<conversations::Hit>> hits) {
                  if (query != query_) return;  // a newer one follows
                  if (!hits) toasts_.fail(hits.error());
                  hits_ = std::move(hits).value_or(std::vector<conversations::Hit>());
                  found_ = query;
                });
}

// ---- Settings

void ChatState::configure(Id conversation, std::string system_prompt, ChatSettings settings) {
  if (conversation == current_) {
    if (settings.chat_template != settings_.chat_template && !model_.empty()) {
      settings.template_of = model_path_;
      model_template_ = settings.chat_template;
      if (on_template) on_template(model_template_);
    }
    system_prompt_ = system_prompt;
    settings_ = settings;
    ++revision_;
  }
  if (conversation == 0) return;
  store_.call([conversation, prompt = std::move(system_prompt), text = text_of(settings)](
                  Store& store) { return store.configure(conversation, prompt, text, {}); },
              [this](const Status& status) {
                if (!status.ok()) toasts_.fail(status);
              });
}

void ChatState::use_preset(const std::string& name) {
  const auto preset = std::ranges::find(presets_, name, &conversations::Preset::name);
  if (preset == presets_.end()) return;
  Result<ChatSettings> settings = settings_of(preset->settings);
  if (!settings) return toasts_.fail(settings.error());
  fit_template(*settings);
  const std::string before = system_prompt_;
  const ChatSettings before_settings = settings_;
  configure(current_, preset->system_prompt, *std::move(settings));
  if (before.empty() || before == system_prompt_) return;
  toasts_.tell(
      "The preset \"" + name + "\" has replaced the system prompt.", "Undo",
      [this, id = current_, before, before_settings] { configure(id, before, before_settings); });
}

void ChatState::save_preset(const std::string& name) {
  std::optional<conversations::Preset> former;
  const auto found = std::ranges::find(presets_, name, &conversations::Preset::name);
  if (found != presets_.end()) former = *found;
  put_preset({name, system_prompt_, text_of(settings_)}, [this, name, former] {
    if (!former) return toasts_.tell("The preset \"" + name + "\" is saved.");
    toasts_.tell("The preset \"" + name + "\" is replaced.", "Undo",
                 [this, former] { put_preset(*former); });
  });
}

void ChatState::put_preset(conversations::Preset preset, std::function<void()> then) {
  store_.call([preset = std::move(preset)](Store& store) { return store.save_preset(preset); },
              [this, then = std::move(then)](const Status& status) {
                if (!status.ok()) return toasts_.fail(status);
                refresh();
                if (then) then();
              });
}

void ChatState::delete_preset(const std::string& name) {
  const auto found = std::ranges::find(presets_, name, &conversations::Preset::name);
  if (found == presets_.end()) return;
  store_.call([name](Store& store) { return store.delete_preset(name); },
              [this, preset = *found](const Status& status) {
                if (!status.ok()) return toasts_.fail(status);
                refresh();
                toasts_.tell("The preset \"" + preset.name + "\" is deleted.", "Undo",
                             [this, preset] { put_preset(preset); });
              });
}

// ---- Messages

void ChatState::select(Id message) {
  change([id = current_, message](Store& store) -> Result<Tree> {
    if (Status status = store.select(message); !status.ok()) {
      return tl::unexpected(std::move(status));
    }
    return store.load(id);
  });
}

void ChatState::after_answer_to(Id message, std::function<void()> then) {
  const auto live = live_.find(current_);
  if (!tree_ || live == live_.end()) return then();
  const std::vector<Id> path = tree_->path_to(live->second.message);
  if (std::ranges::find(path, message) == path.end()) return then();
  after_end_[current_] = std::move(then);
  engine_.stop(current_);
}

void ChatState::remove_message(Id message) {
  after_answer_to(message, [this, id = current_, message] { trash_message(id, message); });
}

void ChatState::trash_message(Id conversation, Id message) {
  const auto reload = [id = conversation](Status (Store::*what)(Id), Id which) {
    return [id, what, which](Store& store) -> Result<Tree> {
      if (Status status = (store.*what)(which); !status.ok()) {
        return tl::unexpected(std::move(status));
      }
      return store.load(id);
    };
  };
  const auto tell = [this, message, reload] {
    toasts_.tell("The message and all after it are in the trash.", "Undo",
                 [this, message, reload] { change(reload(&Store::restore_message, message)); });
  };
  Job trash = reload(&Store::move_message_to_trash, message);
  if (conversation == current_) return change(std::move(trash), tell);
  // The user has opened another one while the answer ended.
  store_.call(std::move(trash), [this, tell](const Result<Tree>& tree) {
    if (!tree) return toasts_.fail(tree.error());
    refresh();
    tell();
  });
}

// ---- What is being typed

void ChatState::count(const std::string& draft) {
  if (model_.empty()) return;
  CountRequest request;
  request.request = ++count_request_;
  request.form = form_of(settings_);
  if (tree_) {
    request.messages = messages_of(*tree_, tree_->shown(), system_prompt_);
  } else if (!system_prompt_.empty()) {
    request.messages = {{"system", system_prompt_, {}, {}, {}, {}}};
  }
  request.draft = draft;
  engine_.count(std::move(request));
}

void ChatState::set_model(std::string name, std::string path, std::string chat_template) {
  model_ = std::move(name);
  model_path_ = std::move(path);
  model_template_ = std::move(chat_template);
  fit_template(settings_);
  fit_template(new_settings_);
  forget_count();
  ++revision_;
}

void ChatState::fit_template(ChatSettings& settings) const {
  if (model_path_.empty()) return;
  const bool any = settings.template_of.empty() || settings.template_of == model_path_;
  if (any && !settings.chat_template.empty()) return;
  settings.chat_template = model_template_;
  settings.template_of = model_template_.empty() ? "" : model_path_;
}

/// What was counted is of something else, and what is being counted as well.
void ChatState::forget_count() {
  ++count_request_;
  draft_tokens_ = context_used_ = context_ = 0;
}

}  // namespace infer::gui
