// The store behind a queue: one thread does all that waits for the disk. For a window, which draws
// between two calls and never waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include "conversations/search_thread.h"
#include "conversations/store.h"

namespace infer::conversations {

struct AsyncOptions {
  OpenOptions open;
  /// Called in poll() once, when the file has been opened or could not be. In the latter case every
  /// call fails with that status, or works in memory.
  std::function<void(const Status&, const OpenReport&)> opened;
  /// Called in poll() when the file was gone, and all that it had was written anew.
  std::function<void()> written_anew;
  /// Called in poll() when a text that was appended, or what keep() got, could not be saved. It
  /// stays in memory and is tried again. Further failures are not told until saving has worked
  /// again.
  std::function<void(const Status&)> save_failed;
  /// Called on the store's thread when poll() has something to do: a window that sleeps may be
  /// woken.
  std::function<void()> wake;
  /// A file that cannot be opened is copied into memory, as far as it can be read, and calls work
  /// there. Nothing of what they write is kept.
  bool in_memory_otherwise = false;
  /// What is appended is saved after at most this time, and what failed is tried again after it.
  std::chrono::milliseconds save_every{200};
};

/// All functions may be called from any thread, except poll(): always from the same one. Only the
/// queue's lock is taken, never for longer than a few copies.
class AsyncStore {
 public:
  AsyncStore(std::string path, AsyncOptions options);
  /// Waits until everything that was asked for has been done. What poll() has not told is dropped.
  ~AsyncStore();
  AsyncStore(const AsyncStore&) = delete;
  AsyncStore& operator=(const AsyncStore&) = delete;

  /// Runs `job(Store&)` on the store's thread, after all that was asked for before. It returns a
  /// Status or a Result, which `done` gets in poll().
  template <typename Job, typename Done>
  void call(Job job, Done done) {
    submit(false, std::move(job), std::move(done));
  }

  /// Like call(), for what must not be lost. If the disk is full, the file locked or memory short,
  /// the job is tried again until it works. It does not run while a text that was appended before
  /// it waits for the same. What is asked for later may be done before it. At the end of the store
  /// it is tried once more.
  template <typename Job, typename Done>
  void keep(Job job, Done done) {
    submit(true, std::move(job), std::move(done));
  }

  /// Adds to the end of an answer, whole characters. What is asked for later with call() sees it.
  void append(Id message, std::string_view text, std::string_view reasoning);

  /// Runs a short job when nothing else is to be done, and waits for it. For threads on which
  /// poll() is not called. Not once the end of the store has begun.
  Status wait_for(const std::function<Status(Store&)>& job);

  /// As Store::search(), beside all that the store does. A search that was asked for before ends,
  /// and its `done` is not called. `after`: so long it waits for a newer one first.
  void search(std::string query, std::chrono::milliseconds after,
              std::function<void(Result<std::vector<Hit>>)> done);

  /// Calls the functions of all jobs that are done, in their order. Returns how many.
  size_t poll();

  /// Why something could not be saved yet, which is lost if the process ends now. Ok: nothing waits
  /// after a failure.
  Status unsaved() const;

 private:
  /// What a job has to say.
  struct Outcome {
    std::function<void()> told;  ///< called in poll()
    Status failure;
  };
  struct Job {
    std::function<Outcome(Store*, const Status&)> run;
    bool is_kept = false;
  };
  /// What wait_for() waits for.
  struct Part {
    const std::function<Status(Store&)>& run;
    Status result;
    bool is_done = false;
  };
  struct Text {
    std::string text, reasoning;
  };
  using Texts = std::map<Id, Text>;

  template <typename Returned, typename Work>
  static Returned run_job(Work& job, Store* store, const Status& failure) {
    const auto failed = [](const Status& why) -> Returned {
      if constexpr (std::is_same_v<Returned, Status>) {
        return why;
      } else {
        return tl::unexpected(why);
      }
    };
    if (store == nullptr) return failed(failure);
    try {
      return job(*store);
    } catch (const std::bad_alloc&) {
      return failed({StatusCode::out_of_memory, store->path() + ": not enough memory"});
    }
  }

  static Status failure_of(const Status& status) { return status; }
  template <typename Value>
  static Status failure_of(const Result<Value>& result) {
    return result ? Status() : result.error();
  }

  template <typename Work, typename Done>
  void submit(bool is_kept, Work work, Done done) {
    using Returned = std::invoke_result_t<Work, Store&>;
    add({[work = std::move(work), done = std::move(done)](
             Store* store, const Status& failure) mutable -> Outcome {
           Returned returned = run_job<Returned>(work, store, failure);
           Status failed = failure_of(returned);
           return {[done, returned = std::move(returned)]() mutable { done(std::move(returned)); },
                   std::move(failed)};
         },
         is_kept});
  }

  void add(Job job);
  void run();
  void open();
  /// All with the lock held, which they release while they work.
  void do_next_job(std::unique_lock<std::mutex>& lock);
  void look_after_file(std::unique_lock<std::mutex>& lock);
  void do_next_part(std::unique_lock<std::mutex>& lock);
  void clean(std::unique_lock<std::mutex>& lock);
  void save(std::unique_lock<std::mutex>& lock);
  void see_saving(const Status& before, std::unique_lock<std::mutex>& lock);
  /// With the lock held.
  Status waits_because() const { return text_failure_.ok() ? keep_failure_ : text_failure_; }
  void tell(std::function<void()> what);

  const std::string path_;
  const AsyncOptions options_;
  std::unique_ptr<Store> store_;  // used by the thread alone
  Status failure_;                // why there is no store
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  std::deque<Part*> parts_;
  std::condition_variable part_done_;
  Texts texts_;            // appended and not saved
  std::deque<Job> again_;  // kept jobs that have failed
  std::chrono::steady_clock::time_point save_at_;
  Status text_failure_, keep_failure_;  // of the last attempts
  bool ending_ = false;
  std::deque<std::function<void()>> told_;
  SearchThread searches_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace infer::conversations
