#include "server/access_log.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

namespace infer::server {

namespace {
constexpr size_t kMostLines = 10'000;
}

/// Shared with the thread, which may outlive the log.
struct AccessLog::Queue {
  std::function<void(const std::string&)> write;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::string> lines;
  size_t dropped = 0;
  bool ends = false;
  bool ended = false;

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ends || !lines.empty(); });
      if (lines.empty()) break;
      std::string line = std::move(lines.front());
      lines.pop_front();
      if (const size_t count = std::exchange(dropped, 0); count > 0) {
        line = fmt::format("{{\"dropped_lines\":{}}}\n", count) + line;
      }
      lock.unlock();
      write(line);
      lock.lock();
    }
    ended = true;
    changed.notify_all();
  }
};

AccessLog::AccessLog(std::function<void(const std::string&)> write)
    : queue_(std::make_shared<Queue>()) {
  queue_->write = std::move(write);
  thread_ = std::thread([queue = queue_] { queue->run(); });
}

AccessLog::~AccessLog() {
  bool ended = false;
  {
    std::unique_lock lock(queue_->mutex);
    queue_->ends = true;
    queue_->changed.notify_all();
    ended = queue_->changed.wait_for(lock, std::chrono::seconds(1), [&] { return queue_->ended; });
  }
  ended ? thread_.join() : thread_.detach();
}

void AccessLog::put(std::string line) {
  {
    const std::lock_guard lock(queue_->mutex);
    if (queue_->lines.size() >= kMostLines) {
      ++queue_->dropped;
      return;
    }
    queue_->lines.push_back(std::move(line));
  }
  queue_->changed.notify_all();
}

}  // namespace infer::server
