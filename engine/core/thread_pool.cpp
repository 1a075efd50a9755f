#include "engine/core/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

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

// A notification looks whether anybody sleeps, and a sleeper says so before it looks at the value a
// last time. Of those two and the changes of the value no processor may see another order than the
// rest, or a sleeper is passed over and never woken: all are sequentially consistent (libstdc++'s
// own accesses are; a change that is merely released may still be on its way while the notifier
// looks).

/// How a thread waits before it sleeps.
class Patience {
 public:
  /// `crowded`: threads share processors.
  explicit Patience(bool crowded) : crowded_(crowded) {}

  /// Spends a moment. False: it has been long, and the thread is to sleep.
  bool spend() {
    ++turns_;
    if (crowded_) return pause_or_yield();
    pause();
    if (turns_ % kTurns != 0) return true;
    const auto now = Clock::now();
    if (turns_ == kTurns) begun_ = now;
    return now - begun_ < kLongest;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Threads of equal work are a few microseconds apart. A thread that yields or sleeps may wait
  // milliseconds for its processor, even behind a program of lower priority (EEVDF, from Linux 6.6
  // on). So it does neither until the thread it waits for has probably lost a processor itself.
  static constexpr int kTurns = 64;
  static constexpr std::chrono::microseconds kLongest{100};

  // A hundred pauses take 1 to 5 µs. Who waits longer may hold up the thread it waits for. Yielding
  // comes back at once if no other thread wants the processor.
  static constexpr int kPauses = 100;
  static constexpr int kYields = 50;
  bool pause_or_yield() {
    if (turns_ <= kPauses) {
      pause();
    } else {
      std::this_thread::yield();
    }
    return turns_ < kPauses + kYields;
  }

  const bool crowded_;
  int turns_ = 0;
  Clock::time_point begun_;
};

/// The index of each thread's node: threads lie evenly among the nodes' processors.
std::vector<int> spread(int threads, std::span<const os::MemoryNode> nodes) {
  int64_t processors = 0;
  for (const os::MemoryNode& node : nodes) processors += std::ssize(node.processors);
  std::vector<int> node_of;
  int64_t end = 0;  // of the processors up to this node's
  for (int n = 0; n < std::ssize(nodes); ++n) {
    end += std::ssize(nodes[static_cast<size_t>(n)].processors);
    // Thread t lies in the middle of its part of the processors.
    while ((2 * std::ssize(node_of) + 1) * processors < 2 * end * threads &&
           std::ssize(node_of) < threads) {
      node_of.push_back(n);
    }
  }
  return node_of;
}

}  // namespace

int available_threads() { return std::min(os::usable_processors(), kMaxThreads); }

ThreadPool::ThreadPool(int threads, std::vector<os::MemoryNode> nodes)
    : size_(std::clamp(threads, 1, kMaxThreads)),
      crowded_(size_ > os::usable_processors()),
      nodes_(size_ > 1 ? std::move(nodes) : std::vector<os::MemoryNode>()),
      node_of_(spread(size_, nodes_)),
      work_(size_, node_of_) {
  threads_.reserve(static_cast<size_t>(size_ - 1));
  try {
    for (int t = 1; t < size_; ++t) threads_.emplace_back([this, t] { worker(t); });
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() { stop(); }

const os::MemoryNode* ThreadPool::node(int thread) const {
  if (nodes_.empty()) return nullptr;
  return &nodes_[static_cast<size_t>(node_of_[static_cast<size_t>(thread)])];
}

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
  const os::OnNode here(node(0));
  run_part(0);
  Patience patience(crowded_);
  while (const int left = running_.load(std::memory_order_acquire)) {
    if (!patience.spend()) running_.wait(left, std::memory_order_seq_cst);
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
  Patience patience(crowded_);
  while (barrier_phase_.load(std::memory_order_acquire) == phase) {
    if (failed_.load(std::memory_order_acquire)) break;
    if (!patience.spend()) barrier_phase_.wait(phase, std::memory_order_seq_cst);
  }
  if (failed_.load(std::memory_order_acquire)) throw JobAborted{};
}

void ThreadPool::worker(int thread) {
  const os::OnNode here(node(thread));
  uint64_t seen = 0;
  for (;;) {
    Patience patience(crowded_);
    while (generation_.load(std::memory_order_acquire) == seen) {
      if (patience.spend()) continue;
      std::unique_lock lock(sleep_mutex_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [&] { return generation_.load(std::memory_order_seq_cst) != seen; });
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    }
    ++seen;
    if (stop_.load(std::memory_order_acquire)) return;
    run_part(thread);
    if (running_.fetch_sub(1, std::memory_order_seq_cst) == 1) running_.notify_one();
  }
}

}  // namespace infer
