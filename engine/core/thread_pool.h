// A fixed set of threads that run one job together, and a barrier for the phases inside a job.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/core/platform/memory_nodes.h"
#include "engine/core/work_share.h"

namespace infer {

inline constexpr int kMaxThreads = 512;

/// The threads the process may use: the affinity mask and the cgroup's quota, capped at
/// kMaxThreads.
int available_threads();

/// Runs a job on n threads at once. The caller of run() is thread 0; the others wait for jobs,
/// first spinning and then asleep. One job at a time; only one thread at a time may call run(). If
/// a job throws, the other threads stop at their next barrier, and run() rethrows the exception.
class ThreadPool {
 public:
  /// `threads` is clamped to 1..kMaxThreads. They are spread over `nodes`, in proportion to the
  /// processors there and neighbours together, and run nowhere else within a job. Throws
  /// std::system_error if threads cannot be made.
  explicit ThreadPool(int threads, std::vector<os::MemoryNode> nodes = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  /// The memory nodes of the threads; none: threads run anywhere.
  std::span<const os::MemoryNode> nodes() const { return nodes_; }
  /// The node where a thread runs; null: anywhere.
  const os::MemoryNode* node(int thread) const;

  /// Calls job(thread) for thread = 0..size()−1 and returns when all have ended.
  template <typename Job>
  void run(Job&& job) {
    run_job([](void* j, int thread) { (*static_cast<std::remove_reference_t<Job>*>(j))(thread); },
            &job);
  }

  /// Called inside a job: waits until all threads have called it. Each thread must call it equally
  /// often.
  void barrier();

  /// How the threads of a job share work.
  WorkShare& work() { return work_; }

 private:
  using JobFn = void (*)(void*, int);

  void run_job(JobFn fn, void* job);
  void run_part(int thread);
  void worker(int thread);
  void record_failure();
  void stop();

  int size_;
  bool crowded_;  ///< there are more threads than processors
  std::vector<os::MemoryNode> nodes_;
  std::vector<int> node_of_;  ///< by thread; empty: no nodes
  WorkShare work_;
  std::vector<std::thread> threads_;

  JobFn fn_ = nullptr;
  void* job_ = nullptr;
  std::exception_ptr failure_;
  std::mutex failure_mutex_;
  std::atomic<bool> failed_{false};

  alignas(64) std::atomic<uint64_t> generation_{0};
  alignas(64) std::atomic<int> running_{0};
  alignas(64) std::atomic<int> barrier_count_{0};
  alignas(64) std::atomic<uint32_t> barrier_phase_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex sleep_mutex_;
  std::condition_variable wake_;
};

}  // namespace infer
