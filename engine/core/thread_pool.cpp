#include "engine/core/thread_pool.h"

#include <algorithm>

#include "engine/core/platform/processor.h"

namespace infer {
namespace {

/// Thrown in the threads that wait for one that failed; never leaves the pool.
struct JobAborted {};

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// A hundred pauses take 1 to 3 µs, about as long as threads of equal work are apart. Who waits
// longer yields, for the other threads may have been put on the same processor; yielding comes back
// at once if no other thread wants it.
constexpr int kPauses = 100;
constexpr int kYields = 50;

// A notification looks whether anybody sleeps, and a sleeper says so before it looks at the value a
// last time. Of those two and the changes of the value no processor may see another order than the
// rest, or a sleeper is passed over and never woken: all are sequentially consistent (libstdc++'s
// own accesses are; a change that is merely released may still be on its way while the notifier
// looks).

/// One turn of waiting for `value` to change: a pause, later a yield, at last a sleep, so that
/// threads without a processor of their own do not hold up those they wait for.
template <typename T>
void wait_a_little(const std::atomic<T>& value, T old, int spins) {
  if (spins < kPauses) {
    pause();
  } else if (spins < kPauses + kYields) {
    std::this_thread::yield();
  } else {
    value.wait(old, std::memory_order_seq_cst);
  }
}

}  // namespace

int available_threads() { return std::min(os::usable_processors(), kMaxThreads); }

ThreadPool::ThreadPool(int threads) : size_(std::clamp(threads, 1, kMaxThreads)), work_(size_) {
  threads_.reserve(static_cast<size_t>(size_ - 1));
  try {
    for (int t = 1; t < size_; ++t) threads_.emplace_back([this, t] { worker(t); });
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stop_.store(true);
  {
    const std::lock_guard lock(sleep_mutex_);
    generation_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run_job(JobFn fn, void* job) {
  work_.begin_job();
  fn_ = fn;
  job_ = job;
  failed_.store(false, std::memory_order_relaxed);
  failure_ = nullptr;
  barrier_count_.store(0, std::memory_order_relaxed);
  running_.store(size_ - 1, std::memory_order_relaxed);
  generation_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    { const std::lock_guard lock(sleep_mutex_); }
    wake_.notify_all();
  }
  run_part(0);
  for (int spins = 0;; ++spins) {
    const int left = running_.load(std::memory_order_acquire);
    if (left == 0) break;
    wait_a_little(running_, left, spins);
  }
  if (failure_) std::rethrow_exception(failure_);
}

void ThreadPool::run_part(int thread) {
  try {
    fn_(job_, thread);
  } catch (const JobAborted&) {  // another thread failed first and has recorded why
  } catch (...) {
    record_failure();
  }
}

void ThreadPool::record_failure() {
  const std::lock_guard lock(failure_mutex_);
  if (!failure_) failure_ = std::current_exception();
  failed_.store(true, std::memory_order_release);
  barrier_phase_.fetch_add(1, std::memory_order_seq_cst);  // lets go those who wait for this thread
  barrier_phase_.notify_all();
}

void ThreadPool::barrier() {
  if (size_ == 1) return;
  const uint32_t phase = barrier_phase_.load(std::memory_order_acquire);
  if (barrier_count_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    barrier_count_.store(0, std::memory_order_relaxed);
    barrier_phase_.store(phase + 1, std::memory_order_seq_cst);
    barrier_phase_.notify_all();
    return;
  }
  for (int spins = 0; barrier_phase_.load(std::memory_order_acquire) == phase; ++spins) {
    if (failed_.load(std::memory_order_acquire)) break;
    wait_a_little(barrier_phase_, phase, spins);
  }
  if (failed_.load(std::memory_order_acquire)) throw JobAborted{};
}

void ThreadPool::worker(int thread) {
  uint64_t seen = 0;
  for (;;) {
    for (int spins = 0; generation_.load(std::memory_order_acquire) == seen; ++spins) {
      if (spins < kPauses) {
        pause();
      } else if (spins < kPauses + kYields) {
        std::this_thread::yield();
      } else {
        std::unique_lock lock(sleep_mutex_);
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        wake_.wait(lock, [&] { return generation_.load(std::memory_order_seq_cst) != seen; });
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
      }
    }
    ++seen;
    if (stop_.load(std::memory_order_acquire)) return;
    run_part(thread);
    if (running_.fetch_sub(1, std::memory_order_seq_cst) == 1) running_.notify_one();
  }
}

}  // namespace infer
