// Work of which only the latest request matters, such as the plan for what a slider shows.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace infer::gui {

/// Runs jobs on a thread of its own, one at a time. A job that waits is dropped when another one is
/// submitted. Any thread may use it.
class LatestTask {
 public:
  using Job = std::function<void()>;

  LatestTask() : thread_([this] { run(); }) {}
  /// Drops a waiting job and waits for the running one.
  ~LatestTask() { end(); }
  LatestTask(const LatestTask&) = delete;
  LatestTask& operator=(const LatestTask&) = delete;

  /// Returns at once. Jobs that are submitted after end() are dropped.
  void submit(Job job);
  /// Drops a job that waits.
  void drop();
  /// Waits until nothing runs and nothing waits.
  void finish();
  /// As the destructor.
  void end();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  Job waiting_;
  bool running_ = false;
  bool ending_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace infer::gui
