#include "gui/host/answers.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "gui/host/chat_json.h"
#include "gui/host/guard.h"

namespace infer::gui {
namespace {

/// Conversations that are kept open between answers. Others are computed again.
constexpr size_t kMostOpen = 8;
constexpr size_t kMostThreads = 32;
constexpr std::chrono::milliseconds kStopAgain{20};

/// Adds text to an event with the same kind of text, if nothing of the answer came after it.
Merge merge_parts(EngineEvent& waiting, EngineEvent& next) {
  const AnswerPart& part = std::get<AnswerPart>(next);
  if (const auto* const ended = std::get_if<AnswerEnded>(&waiting)) {
    return ended->conversation == part.conversation ? Merge::no : Merge::look_on;
  }
  auto* const before = std::get_if<AnswerPart>(&waiting);
  if (before == nullptr || before->conversation != part.conversation) return Merge::look_on;
  const bool call = part.part.kind == OutputEvent::Kind::tool_call;
  if (call || before->part.kind != part.part.kind) return Merge::no;
  before->part.text += part.part.text;
  return Merge::done;
}

AnswerEnded::Full full_of(chat::Conversation::TooLong too_long) {
  using TooLong = chat::Conversation::TooLong;
  switch (too_long) {
    case TooLong::messages: return AnswerEnded::Full::messages;
    case TooLong::last_turn: return AnswerEnded::Full::last_message;
    case TooLong::nothing: break;
  }
  return AnswerEnded::Full::nothing;
}

}  // namespace

Answers::Answers(Engine& engine, EngineEvents& events, std::function<void()> on_end)
    : engine_(engine), events_(events), on_end_(std::move(on_end)) {}

Answers::~Answers() {
  stop_all();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0; });
    ending_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  stopper_.end();
}

bool Answers::idle() const {
  const std::lock_guard lock(mutex_);
  return running_ == 0;
}

void Answers::submit(std::function<void()> job) {
  jobs_.push_back(std::move(job));
  if (jobs_.size() > idle_threads_ && threads_.size() < kMostThreads) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // Another thread takes the job later.
      if (threads_.empty()) {
        jobs_.pop_back();
        throw;
      }
    }
  }
  changed_.notify_all();
}

void Answers::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_threads_;
    changed_.wait(lock, [&] { return ending_ || !jobs_.empty(); });
    --idle_threads_;
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = {};
    lock.lock();
  }
}

void Answers::start(AnswerRequest request) {
  const int64_t id = request.conversation;
  const Status status = guarded([&]() -> Status {
    const std::lock_guard lock(mutex_);
    TalkPtr& talk = talks_[id];
    if (talk == nullptr) talk = std::make_shared<Talk>();
    if (talk->running) {
      return {StatusCode::busy,
              "this conversation is being answered already; stop that answer first"};
    }
    submit([this, talk, request = std::move(request)] { run(talk, request); });
    talk->running = true;
    talk->forgotten = false;
    talk->stopped = false;
    talk->used = ++clock_;
    ++running_;
    return {};
  });
  if (!status.ok()) {
    AnswerEnded ended;
    ended.conversation = id;
    ended.status = status;
    events_.push(std::move(ended));
  }
}

void Answers::run(const TalkPtr& talk, const AnswerRequest& request) {
  AnswerEnded ended;
  ended.conversation = request.conversation;
  ended.status = guarded([&] { return generate(*talk, request, ended); });
  std::unique_ptr<chat::Conversation> closed;
  {
    const std::lock_guard lock(mutex_);
    talk->running = false;
    if (talk->forgotten) closed = std::move(talk->conversation);
  }
  closed.reset();
  close_old();
  events_.push(std::move(ended));
  {
    // Only now may the engine go: its end is told after this one.
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  }
  on_end_();
}

int64_t Answers::conversation_of(int64_t session) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, talk] : talks_) {
    if (talk->conversation != nullptr && talk->conversation->session() == session) return number;
  }
  return 0;
}

Result<chat::Conversation*> Answers::conversation_of(Talk& talk, const ChatForm& form) {
  {
    const std::lock_guard lock(mutex_);
    if (talk.conversation != nullptr && talk.form == form) return talk.conversation.get();
  }
  auto opened = open_conversation(engine_, form);
  if (!opened) return tl::unexpected(opened.error());
  (*opened)->watch(&talk.stopped);
  std::unique_ptr<chat::Conversation> before = *std::move(opened);
  const std::lock_guard lock(mutex_);
  std::swap(talk.conversation, before);
  talk.form = form;
  return talk.conversation.get();
}

Status Answers::generate(Talk& talk, const AnswerRequest& request, AnswerEnded& ended) {
  const auto opened = conversation_of(talk, request.form);
  if (!opened) return opened.error();
  chat::Conversation& conversation = **opened;
  auto messages = messages_json(request.messages, engine_.reads_images());
  if (!messages) return messages.error();
  conversation.messages() = *std::move(messages);
  GenerateOptions options = request.options;
  options.on_logprobs = {};
  options.logprobs = -1;
  const auto see = [&](const OutputEvent& part) {
    events_.push(AnswerPart{request.conversation, part}, merge_parts);
    return !talk.stopped;
  };
  const auto done = request.continues ? conversation.continue_answer(options, see)
                                      : conversation.answer(options, see);
  ended.context_used = conversation.context_used();
  ended.context = engine_.memory().longest;
  ended.full = full_of(conversation.too_long());
  if (!done) return done.error();
  ended.result = done->result;
  ended.dropped_messages = done->dropped_messages;
  return {};
}

void Answers::close_old() {
  std::vector<std::unique_ptr<chat::Conversation>> closed;
  const std::lock_guard lock(mutex_);
  std::vector<TalkPtr> open;
  for (auto it = talks_.begin(); it != talks_.end();) {
    const TalkPtr& talk = it->second;
    if (!talk->running && talk->conversation == nullptr) {
      it = talks_.erase(it);
      continue;
    }
    if (!talk->running) open.push_back(talk);
    ++it;
  }
  std::ranges::sort(open, {}, [](const TalkPtr& talk) { return talk->used; });
  while (open.size() > kMostOpen) {
    closed.push_back(std::move(open.front()->conversation));
    open.erase(open.begin());
  }
}

void Answers::cancel(Talk& talk) {
  if (talk.conversation != nullptr) talk.conversation->cancel();
}

void Answers::stop(int64_t conversation) {
  const std::lock_guard lock(mutex_);
  const auto found = talks_.find(conversation);
  if (found == talks_.end() || !found->second->running) return;
  found->second->stopped = true;
  cancel(*found->second);
  stopper_.submit([this] { stop_again(); });
}

void Answers::stop_all() {
  const std::lock_guard lock(mutex_);
  bool any = false;
  for (const auto& [id, talk] : talks_) {
    if (!talk->running) continue;
    talk->stopped = true;
    cancel(*talk);
    any = true;
  }
  if (any) stopper_.submit([this] { stop_again(); });
}

void Answers::stop_again() {
  std::unique_lock lock(mutex_);
  for (;;) {
    bool any = false;
    for (const auto& [id, talk] : talks_) {
      if (!talk->running || !talk->stopped) continue;
      cancel(*talk);
      any = true;
    }
    if (!any) return;
    changed_.wait_for(lock, kStopAgain);
  }
}

void Answers::forget(int64_t conversation) {
  const std::lock_guard lock(mutex_);
  const auto found = talks_.find(conversation);
  if (found == talks_.end()) return;
  const TalkPtr talk = found->second;
  talk->forgotten = true;
  if (talk->running) return;
  // Closing waits for the engine's step, which the caller must not.
  submit([this, talk] {
    std::unique_ptr<chat::Conversation> closed;
    {
      const std::lock_guard own(mutex_);
      if (!talk->running) closed = std::move(talk->conversation);
    }
    closed.reset();
    close_old();
  });
}

}  // namespace infer::gui
