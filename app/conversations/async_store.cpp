#include "conversations/async_store.h"

#include <filesystem>
#include <system_error>

namespace infer::conversations {
namespace {

/// Whether what has failed so may work later.
bool may_work_later(const Status& failure) {
  return failure.code() == StatusCode::io || failure.code() == StatusCode::busy ||
         failure.code() == StatusCode::out_of_memory;
}

}  // namespace

AsyncStore::AsyncStore(std::string path, AsyncOptions options)
    : path_(std::move(path)),
      options_(std::move(options)),
      searches_(path_),
      thread_([this] { run(); }) {}

AsyncStore::~AsyncStore() {
  searches_.end();
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void AsyncStore::add(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  changed_.notify_one();
}

void AsyncStore::append(Id message, std::string_view text, std::string_view reasoning) {
  {
    const std::lock_guard lock(mutex_);
    if (texts_.empty() && again_.empty())
      save_at_ = std::chrono::steady_clock::now() + options_.save_every;
    Text& waiting = texts_[message];
    waiting.text += text;
    waiting.reasoning += reasoning;
  }
  changed_.notify_one();
}

Status AsyncStore::wait_for(const std::function<Status(Store&)>& job) {
  Part part{job, {}};
  std::unique_lock lock(mutex_);
  parts_.push_back(&part);
  changed_.notify_one();
  part_done_.wait(lock, [&] { return part.is_done; });
  return part.result;
}

void AsyncStore::search(std::string query, std::chrono::milliseconds after,
                        std::function<void(Result<std::vector<Hit>>)> done) {
  searches_.ask(query, after, [this, query, done = std::move(done)](auto hits) {
    if (!hits) return call([query](Store& store) { return store.search(query); }, done);
    tell([done, hits = *std::move(hits)] { done(hits); });
  });
}

size_t AsyncStore::poll() {
  std::deque<std::function<void()>> due;
  {
    const std::lock_guard lock(mutex_);
    due.swap(told_);
  }
  for (const auto& what : due) what();
  return due.size();
}

Status AsyncStore::unsaved() const {
  const std::lock_guard lock(mutex_);
  return waits_because();
}

void AsyncStore::tell(std::function<void()> what) {
  {
    const std::lock_guard lock(mutex_);
    told_.push_back(std::move(what));
  }
  if (options_.wake) options_.wake();
}

void AsyncStore::open() {
  OpenReport report;
  Result<std::unique_ptr<Store>> opened = Store::open(path_, &report, options_.open);
  if (opened) {
    store_ = std::move(*opened);
  } else {
    failure_ = opened.error();
    if (options_.in_memory_otherwise) {
      store_ = Store::open_in_memory(path_, options_.open).value_or(nullptr);
    }
  }
  searches_.use_file(store_ != nullptr && failure_.ok());
  if (!options_.opened) return;
  tell([this, status = failure_, report] { options_.opened(status, report); });
}

void AsyncStore::run() {
  open();
  std::unique_lock lock(mutex_);
  for (;;) {
    if (!jobs_.empty()) {
      do_next_job(lock);
    } else if (const bool waits = !texts_.empty() || !again_.empty();
               waits && (ending_ || std::chrono::steady_clock::now() >= save_at_)) {
      look_after_file(lock);
      save(lock);
      if (ending_) texts_.clear();  // there is no later
      if (may_work_later(text_failure_) && !ending_) continue;
      for (; !again_.empty(); again_.pop_back()) jobs_.push_front(std::move(again_.back()));
    } else if (!parts_.empty()) {
      do_next_part(lock);
    } else if (ending_) {
      break;
    } else if (store_ != nullptr && store_->needs_cleaning()) {
      clean(lock);
    } else if (!waits) {
      changed_.wait(lock);
    } else {
      changed_.wait_until(lock, save_at_);
    }
  }
  lock.unlock();
  store_.reset();
}

/// Before something is written: it would be lost with a file that was removed.
void AsyncStore::look_after_file(std::unique_lock<std::mutex>& lock) {
  if (store_ == nullptr || !failure_.ok()) return;
  lock.unlock();
  std::error_code unknown;
  if (store_->is_moved() && !std::filesystem::exists(path_, unknown) && !unknown) {
    searches_.use_file(false);  // a connection to the old file
    Status written = Store::write_anew(store_);
    if (store_ == nullptr) failure_ = written;
    searches_.use_file(store_ != nullptr);
    if (written.ok()) {
      tell([this] {
        if (options_.written_anew) options_.written_anew();
      });
    }
  }
  lock.lock();
}

void AsyncStore::do_next_job(std::unique_lock<std::mutex>& lock) {
  look_after_file(lock);
  save(lock);  // the job sees what was appended before
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  const Status before = waits_because();
  Outcome outcome{{}, text_failure_};
  if (!job.is_kept || !may_work_later(text_failure_)) {
    lock.unlock();
    outcome = job.run(store_.get(), failure_);
    lock.lock();
  }
  if (job.is_kept) {
    const bool again = store_ != nullptr && may_work_later(outcome.failure);
    keep_failure_ = again ? outcome.failure : Status();
    if (again) {
      if (ending_) return;  // there is no later
      again_.push_back(std::move(job));
      save_at_ = std::chrono::steady_clock::now() + options_.save_every;
      outcome.told = nullptr;
    }
    see_saving(before, lock);
  }
  lock.unlock();
  if (outcome.told) tell(std::move(outcome.told));
  lock.lock();
}

void AsyncStore::do_next_part(std::unique_lock<std::mutex>& lock) {
  Part& part = *parts_.front();
  parts_.pop_front();
  lock.unlock();
  Status result = run_job<Status>(part.run, store_.get(), failure_);
  lock.lock();
  part.result = std::move(result);
  part.is_done = true;
  part_done_.notify_all();
}

void AsyncStore::clean(std::unique_lock<std::mutex>& lock) {
  constexpr std::chrono::milliseconds kMost{20};
  lock.unlock();
  (void)store_->clean(kMost);
  lock.lock();
}

/// Tells that saving fails, or works again. `before`: how it was.
void AsyncStore::see_saving(const Status& before, std::unique_lock<std::mutex>& lock) {
  const Status now = waits_because();
  if (now.ok() == before.ok()) return;
  lock.unlock();
  tell([this, now] {
    if (!now.ok() && options_.save_failed) options_.save_failed(now);
  });
  lock.lock();
}

void AsyncStore::save(std::unique_lock<std::mutex>& lock) {
  Texts texts;
  texts.swap(texts_);
  if (texts.empty() || store_ == nullptr) return;
  const Status before = waits_because();
  lock.unlock();
  Status failed;
  for (auto waiting = texts.begin(); waiting != texts.end();) {
    const Status saved =
        store_->append(waiting->first, waiting->second.text, waiting->second.reasoning);
    const bool is_done = saved.ok() || saved.code() == StatusCode::not_found;
    if (!is_done) failed = saved;
    waiting = is_done ? texts.erase(waiting) : std::next(waiting);
  }
  lock.lock();
  text_failure_ = failed;
  for (auto& [message, text] : texts) {  // before what was appended meanwhile
    Text& later = texts_[message];
    later.text = text.text + later.text;
    later.reasoning = text.reasoning + later.reasoning;
  }
  if (!texts.empty()) save_at_ = std::chrono::steady_clock::now() + options_.save_every;
  see_saving(before, lock);
}

}  // namespace infer::conversations
