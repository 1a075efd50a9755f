// Jobs on models, one at a time on a thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "gui/host/answers.h"
#include "gui/host/engine_events.h"
#include "gui/host/latest_task.h"

namespace infer::gui {

class JobRunner {
 public:
  explicit JobRunner(EngineEvents& events) : events_(events) {}
  /// Cancels the job and waits for it.
  ~JobRunner();

  /// Both return at once. The job's number is not that of another job.
  int64_t start(Job job);
  void cancel() { cancelled_ = true; }

 private:
  void run(int64_t number, const Job& job);

  EngineEvents& events_;
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  bool running_ = false;
  int64_t last_ = 0;
  LatestTask task_;  // the last member: it uses the others
};

}  // namespace infer::gui
