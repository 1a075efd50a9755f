// What this machine can do at most: the rate of plain reads and of 8-bit multiply-accumulates, on
// all threads at once. The best of several short rounds counts, since other processes disturb.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include "backends/cpu/device.h"

namespace infer::cpu {
namespace {

/// The largest amount per second of `rounds` calls of job(thread), each doing `amount` in total.
template <typename Job>
double best_rate(ThreadPool& pool, int rounds, double amount, Job job) {
  double best = 0;
  for (int r = 0; r < rounds; ++r) {
    const auto start = std::chrono::steady_clock::now();
    pool.run(job);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, amount / seconds.count());
  }
  return best;
}

}  // namespace

Ceilings measure(const CpuContext& context) {
  const VecOps& vec = *context.isa->vec;
  ThreadPool& pool = *context.pool;
  Ceilings ceilings;

  constexpr int64_t kBytes = int64_t{512} << 20;  // far beyond any cache
  const auto data = std::make_unique_for_overwrite<std::byte[]>(kBytes);
  pool.run([&](int thread) {
    const Range part = split_range(kBytes, thread, pool.size(), 4096);
    std::fill(data.get() + part.begin, data.get() + part.end, std::byte{1});
  });
  std::atomic<uint64_t> sink{0};
  ceilings.read_bandwidth_gb_s =
      best_rate(pool, 6, kBytes,
                [&](int thread) {
                  const Range part = split_range(kBytes, thread, pool.size(), 4096);
                  sink += vec.read_all(data.get() + part.begin, part.end - part.begin);
                }) /
      1e9;

  if (vec.int8_products != nullptr) {
    constexpr int64_t kRounds = 2'000'000;
    const double macs = static_cast<double>(vec.int8_products(kRounds)) * pool.size();
    ceilings.int8_mac_g_s =
        best_rate(pool, 6, macs, [&](int) { vec.int8_products(kRounds); }) / 1e9;
  }
  return ceilings;
}

}  // namespace infer::cpu
