// Threads for what takes time: reading requests, templates, tokens.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace infer::server {

class Workers {
 public:
  explicit Workers(int threads);
  /// Waits for what runs; what has not begun is dropped.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Any thread.
  void post(std::function<void()> work);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> queue_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace infer::server
