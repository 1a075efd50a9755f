#include "conversations/import_queue.h"

#include <utility>

namespace infer::conversations {

ImportQueue::ImportQueue(AsyncStore& store, Done done)
    : store_(store), done_(std::move(done)), thread_([this] { run(); }) {}

ImportQueue::~ImportQueue() {
  cancel();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ImportQueue::add(std::string path) {
  {
    const std::lock_guard lock(mutex_);
    paths_.push_back(std::move(path));
  }
  changed_.notify_one();
}

void ImportQueue::cancel() {
  const std::lock_guard lock(mutex_);
  paths_.clear();
  if (control_) control_->is_cancelled = true;
}

std::optional<ImportQueue::Progress> ImportQueue::progress() const {
  const std::lock_guard lock(mutex_);
  if (control_) return Progress{current_, control_->share, paths_.size()};
  if (!paths_.empty()) return Progress{paths_.front(), 0, paths_.size() - 1};
  return std::nullopt;
}

void ImportQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || !paths_.empty(); });
    if (ending_) return;
    current_ = std::move(paths_.front());
    paths_.pop_front();
    const std::shared_ptr<ImportControl> control = control_ = std::make_shared<ImportControl>();
    lock.unlock();
    Result<ImportReport> report = tl::unexpected(Status(
        StatusCode::out_of_memory, current_ + ": there is not enough memory for the import"));
    try {
      report = import_file(
          [this](const std::function<Status(Store&)>& part) { return store_.wait_for(part); },
          current_, *control);
    } catch (const std::bad_alloc&) {  // the next opening of the store deletes what is there
    }
    lock.lock();
    control_.reset();
    lock.unlock();
    // After all that the import has done. It is told in poll().
    store_.call([report = std::move(report)](Store&) { return report; },
                [done = done_](const Result<ImportReport>& told) { done(told); });
    lock.lock();
  }
}

}  // namespace infer::conversations
