// Work that takes long and must hold up no step.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace infer {

/// A few threads, started when they are first needed, that run what they are given in the order in
/// which it comes.
class Background {
 public:
  explicit Background(size_t most_threads) : most_(most_threads) {}
  ~Background() { stop(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// `work` does not throw. Throws std::bad_alloc, or std::system_error if there is no thread.
  void run(std::function<void()> work);
  /// Runs what is left and ends the threads.
  void stop();

 private:
  void serve();

  size_t most_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> work_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  bool stop_ = false;
};

}  // namespace infer
