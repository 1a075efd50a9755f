#include "conversations/search_thread.h"

#include <utility>

#include "conversations/search.h"

namespace infer::conversations {

SearchThread::SearchThread(std::string path) : path_(std::move(path)), thread_([this] { run(); }) {}

void SearchThread::use_file(bool has_file) {
  std::unique_lock lock(mutex_);
  is_ready_ = true;
  has_file_ = has_file;
  changed_.notify_all();
  if (has_file) return;
  stop_ = true;
  changed_.wait(lock, [&] { return !is_running_; });
  reader_.reset();
}

void SearchThread::ask(std::string query, std::chrono::milliseconds after, Done done) {
  const std::lock_guard lock(mutex_);
  asked_ = Request{std::move(query), Clock::now() + after, std::move(done)};
  stop_ = true;
  changed_.notify_all();
}

void SearchThread::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void SearchThread::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ending_ || (is_ready_ && asked_); });
    if (ending_) return;
    if (Clock::now() < asked_->at) {
      const Clock::time_point at = asked_->at;
      changed_.wait_until(lock, at);
      continue;
    }
    Request request = *std::exchange(asked_, std::nullopt);
    stop_ = false;
    is_running_ = true;
    const bool reads = has_file_;
    lock.unlock();
    std::optional<Result<std::vector<Hit>>> hits;
    if (reads) hits = look(request.query);
    lock.lock();
    is_running_ = false;
    changed_.notify_all();
    if (ending_) return;
    if (asked_) continue;       // a newer one counts
    if (reads && !has_file_) {  // the file went away meanwhile
      asked_ = std::move(request);
      continue;
    }
    lock.unlock();
    request.done(std::move(hits));
    lock.lock();
  }
}

std::optional<Result<std::vector<Hit>>> SearchThread::look(const std::string& query) {
  constexpr int kBusyMs = 1000;
  if (reader_ == nullptr) {
    reader_ = Database::open_reader(path_, kBusyMs).value_or(nullptr);
    if (reader_ == nullptr) return std::nullopt;
    reader_->stop_if(&stop_);
  }
  Result<std::vector<Hit>> hits = search_in(*reader_, query, kUsualHits);
  if (hits || hits.error().code() == StatusCode::cancelled) return hits;
  reader_.reset();
  return std::nullopt;
}

}  // namespace infer::conversations
