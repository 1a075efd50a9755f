#include "engine/session/engine_thread.h"

#include <system_error>
#include <utility>

#include "engine/session/guarded.h"

namespace infer {

Status EngineThread::start() {
  try {
    thread_ = std::thread([this] { serve(); });
    return {};
  } catch (const std::system_error& failure) {
    const bool refused = failure.code() == std::errc::resource_unavailable_try_again;
    return error(refused ? StatusCode::out_of_memory : StatusCode::device,
                 "cannot start the thread that computes: {}", failure.code().message());
  }
}

EngineThread::~EngineThread() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void EngineThread::serve() {
  std::vector<Sequence*> submitted;  // outside of the loop, so that a step allocates nothing
  for (;;) {
    bool stopping = false;
    Call* calls = nullptr;
    std::unique_ptr<Task> tasks;
    {
      std::unique_lock lock(mutex_);
      const auto has_work = [&] {
        const bool stalled = scheduler_.stalled() && !woken_;
        return stop_ || calls_ != nullptr || tasks_ != nullptr || !submitted_.empty() ||
               (ready() && !stalled);
      };
      // A reader that lags wakes nobody.
      if (scheduler_.short_of_pages()) {
        wake_.wait_for(lock, kLag, has_work);
      } else {
        wake_.wait(lock, has_work);
      }
      woken_ = false;
      stopping = stop_;
      calls = std::exchange(calls_, nullptr);
      tasks = std::move(tasks_);
      submitted.swap(submitted_);
    }
    run(std::move(tasks));
    answer(calls);
    for (Sequence* sequence : submitted) take_in(sequence);
    submitted.clear();
    if (stopping) break;
    if (!ready()) continue;
    {
      // Whoever posts from here on does not wait; whoever waits is served first.
      const std::lock_guard lock(mutex_);
      if (tasks_ != nullptr) continue;
      computing_ = true;
    }
    const Status status = guarded([&]() -> Status {
      scheduler_.step();
      return {};
    });
    if (!status.ok()) end_all(status);
    const std::lock_guard lock(mutex_);
    computing_ = false;
  }
  // The message takes memory, so it is made only if a sequence gets it.
  if (!scheduler_.idle()) end_all(failure_of(StatusCode::cancelled, "the engine was closed"));
}

void EngineThread::take_in(Sequence* sequence) {
  Status status = guarded([&]() -> Status {
    INFER_CHECK(sequence->consumer->begin());
    scheduler_.add(sequence);
    return {};
  });
  if (!status.ok()) sequence->consumer->done(std::move(status));
}

void EngineThread::end_all(const Status& status) {
  const Status ended = guarded([&]() -> Status {
    scheduler_.finish_all(status);
    return {};
  });
  // If there was no memory to copy the message, some sequences are left.
  if (!ended.ok()) scheduler_.finish_all(out_of_memory());
}

void EngineThread::answer(Call* calls) {
  Call* next = nullptr;  // the oldest call first
  while (calls != nullptr) {
    Call* const before = std::exchange(calls->before, next);
    next = std::exchange(calls, before);
  }
  while (next != nullptr) {
    Call& call = *std::exchange(next, next->before);
    try {
      call.fn();
    } catch (...) {
      call.failure = std::current_exception();
    }
    scheduler_.tell_pages();
    const std::lock_guard lock(mutex_);
    call.done = true;  // from now on the caller may destroy it
    answered_.notify_all();
  }
}

void EngineThread::run(std::unique_ptr<Task> tasks) {
  if (tasks == nullptr) return;
  std::unique_ptr<Task> oldest;
  while (tasks != nullptr) {
    std::unique_ptr<Task> next = std::move(tasks->next);
    tasks->next = std::move(oldest);
    oldest = std::exchange(tasks, std::move(next));
  }
  int64_t count = 0;
  for (; oldest != nullptr; ++count) {
    oldest->fn();
    oldest = std::move(oldest->next);
  }
  scheduler_.tell_pages();
  const std::lock_guard lock(mutex_);
  ran_ += count;
  answered_.notify_all();
}

void EngineThread::post(std::unique_ptr<Task> task) {
  std::unique_lock lock(mutex_);
  task->next = std::move(tasks_);
  tasks_ = std::move(task);
  const int64_t number = ++posted_;
  wake_.notify_all();
  answered_.wait(lock, [&] { return ran_ >= number || computing_; });
}

void EngineThread::hold(bool held) {
  call([&] { held_ = held; });
}

void EngineThread::call(const std::function<void()>& fn) {
  Call call{fn};
  {
    std::unique_lock lock(mutex_);
    call.before = std::exchange(calls_, &call);
    wake_.notify_all();
    answered_.wait(lock, [&] { return call.done; });
  }
  if (call.failure) std::rethrow_exception(call.failure);
}

void EngineThread::submit(Sequence* sequence) {
  {
    const std::lock_guard lock(mutex_);
    submitted_.push_back(sequence);
  }
  wake_.notify_all();
}

void EngineThread::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  wake_.notify_all();
}

}  // namespace infer
