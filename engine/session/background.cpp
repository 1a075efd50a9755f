#include "engine/session/background.h"

#include <utility>

namespace infer {

void Background::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Background::run(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (idle_ <= work_.size() && threads_.size() < most_) {
      threads_.reserve(threads_.size() + 1);
      threads_.emplace_back([this] { serve(); });
      ++idle_;
    }
    work_.push_back(std::move(work));
  }
  wake_.notify_one();
}

void Background::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    --idle_;
    lock.unlock();
    work();
    lock.lock();
    ++idle_;
  }
}

}  // namespace infer
