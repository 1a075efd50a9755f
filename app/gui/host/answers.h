// The answers of one loaded model: several conversations at once, each on a thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "chat/conversation.h"
#include "gui/host/engine_events.h"
#include "gui/host/event_queue.h"
#include "gui/host/latest_task.h"

namespace infer::gui {

using EngineEvents = EventQueue<EngineEvent>;

class Answers {
 public:
  /// `on_end` is called on other threads when an answer has ended.
  Answers(Engine& engine, EngineEvents& events, std::function<void()> on_end);
  /// Stops what runs and waits for it.
  ~Answers();
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;

  // All return at once. Failures are events.
  void start(AnswerRequest request);
  void stop(int64_t conversation);
  void stop_all();
  void forget(int64_t conversation);
  /// Whether no answer is being generated and nothing waits to be.
  bool idle() const;
  /// The conversation that a session is of; 0: none that is open.
  int64_t conversation_of(int64_t session) const;

 private:
  /// A conversation. `conversation` is replaced and cancelled with the lock held, and otherwise
  /// used by the thread that runs its answer alone.
  struct Talk {
    ChatForm form;
    std::unique_ptr<chat::Conversation> conversation;
    std::atomic<bool> stopped{false};
    bool running = false;
    bool forgotten = false;
    uint64_t used = 0;  ///< when it ran last
  };
  using TalkPtr = std::shared_ptr<Talk>;

  void run(const TalkPtr& talk, const AnswerRequest& request);
  Status generate(Talk& talk, const AnswerRequest& request, AnswerEnded& ended);
  /// The talk's conversation, opened where necessary.
  Result<chat::Conversation*> conversation_of(Talk& talk, const ChatForm& form);
  /// Closes the conversations that were not used for longest, until few are left.
  void close_old();
  /// Runs a job on one of the threads; makes one if all are at work. With the lock held.
  void submit(std::function<void()> job);
  void work();
  /// With the lock held.
  void cancel(Talk& talk);
  /// Cancels what is to stop until it has: a cancel() just before a call begins has no effect.
  void stop_again();

  Engine& engine_;
  EngineEvents& events_;
  const std::function<void()> on_end_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int64_t, TalkPtr> talks_;
  int64_t running_ = 0;  ///< answers
  uint64_t clock_ = 0;
  std::deque<std::function<void()>> jobs_;
  size_t idle_threads_ = 0;
  bool ending_ = false;
  std::vector<std::thread> threads_;
  LatestTask stopper_;  // the last member: it uses the others
};

}  // namespace infer::gui
