// The thread that computes an engine's steps.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/sched/scheduler.h"

namespace infer {

/// Runs a scheduler's steps while there is something to compute, and in between what other threads
/// ask for. All functions from any thread.
class EngineThread {
 public:
  /// The scheduler outlives it.
  explicit EngineThread(Scheduler& scheduler) : scheduler_(scheduler) {}
  /// Ends the sequences that are still computed, as cancelled.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  /// out_of_memory or device if the system gives no thread.
  Status start();
  /// Runs `fn` there between steps and waits for it; what it throws comes out. The counters know by
  /// then what has become of the cache's pages. Takes no memory, so
  /// that what has to be given back can be given back when there is none.
  void call(const std::function<void()>& fn);
  /// Something to do there. It must not throw.
  struct Task {
    std::function<void()> fn;
    std::unique_ptr<Task> next{};
  };
  /// Runs the task there between steps, before any later call() or submit(). Waits for it only if
  /// no step is being computed, which takes no time. Takes no memory, as call().
  void post(std::unique_ptr<Task> task);
  /// Gives a sequence to the scheduler; its consumer is told when it is back.
  void submit(Sequence* sequence);
  /// A sequence that was not ready may be by now.
  void wake();
  /// While held, sequences are taken in but no step is computed, so that several begin together.
  void hold(bool held);

 private:
  /// A call() that is waited for; it lies on its caller's stack.
  struct Call {
    const std::function<void()>& fn;
    Call* before = nullptr;
    bool done = false;
    std::exception_ptr failure;
  };

  void serve();
  void answer(Call* calls);
  void run(std::unique_ptr<Task> tasks);
  void take_in(Sequence* sequence);
  void end_all(const Status& status);
  bool ready() const { return !held_ && !scheduler_.idle(); }

  Scheduler& scheduler_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable answered_;
  Call* calls_ = nullptr;        ///< the last one first
  std::unique_ptr<Task> tasks_;  ///< the last one first
  int64_t posted_ = 0;           ///< tasks so far
  int64_t ran_ = 0;              ///< of these
  bool computing_ = false;       ///< a step
  std::vector<Sequence*> submitted_;
  bool woken_ = false;  ///< since the last step began
  bool stop_ = false;
  bool held_ = false;  ///< on the thread
  std::thread thread_;
};

}  // namespace infer
