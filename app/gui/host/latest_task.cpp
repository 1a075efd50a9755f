#include "gui/host/latest_task.h"

#include <utility>

namespace infer::gui {

void LatestTask::submit(Job job) {
  const std::lock_guard lock(mutex_);
  if (ending_) return;
  waiting_ = std::move(job);
  changed_.notify_all();
}

void LatestTask::drop() {
  const std::lock_guard lock(mutex_);
  waiting_ = {};
  changed_.notify_all();
}

void LatestTask::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !running_ && !waiting_; });
}

void LatestTask::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    waiting_ = {};
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void LatestTask::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || waiting_; });
    if (ending_) return;
    Job job = std::exchange(waiting_, {});
    running_ = true;
    lock.unlock();
    job();
    job = {};
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

}  // namespace infer::gui
