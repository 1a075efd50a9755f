// What this machine can do at most: the rate of plain reads and of 8-bit multiply-accumulates, on
// all threads at once. The best of several short rounds counts, since other processes disturb; and
// of reads the best of several ways, since which one a memory controller likes best differs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "backends/cpu/device.h"
#include "engine/core/platform/large_pages.h"
#include "engine/core/platform/memory.h"

namespace infer::cpu {
namespace {

using Words [[gnu::vector_size(16)]] = uint64_t;
constexpr int64_t kLine = 64;

/// Reads `bytes`, a multiple of Streams lines, as so many parts at once, a line of each in turn.
/// Lines `ahead` bytes on are asked for before they are needed; 0: the hardware has to foresee it.
template <int Streams>
uint64_t read_streams(const std::byte* data, int64_t bytes, int64_t ahead) {
  const int64_t part = bytes / Streams;
  Words sums[4] = {};
  for (int64_t i = 0; i < part; i += kLine) {
    for (int s = 0; s < Streams; ++s) {
      const std::byte* line = data + s * part + i;
      if (ahead > 0 && i + ahead < part) __builtin_prefetch(line + ahead);
      for (int w = 0; w < 4; ++w) sums[w] ^= reinterpret_cast<const Words*>(line)[w];
    }
  }
  const Words sum = (sums[0] ^ sums[1]) ^ (sums[2] ^ sums[3]);
  return sum[0] ^ sum[1];
}

/// One way of reading memory once.
struct Reading {
  uint64_t (*run)(const std::byte* data, int64_t bytes, int64_t ahead);
  int64_t ahead;
};

constexpr Reading kReadings[] = {
    {read_streams<1>, 0},    {read_streams<1>, 1024}, {read_streams<1>, 4096},
    {read_streams<2>, 0},    {read_streams<2>, 1024}, {read_streams<4>, 0},
    {read_streams<4>, 1024}, {read_streams<8>, 512},
};
/// Every way divides a thread's part into whole lines.
constexpr int64_t kGrain = 8 * kLine * 8;

/// Far beyond any cache, but at most a quarter of what is free.
int64_t measured_bytes() {
  constexpr int64_t kMost = int64_t{512} << 20;
  constexpr int64_t kLeast = int64_t{32} << 20;
  return std::clamp(os::host_memory().available / 4, kLeast, kMost) / kGrain * kGrain;
}

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

  const int64_t bytes = measured_bytes();
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(kGrain, static_cast<size_t>(bytes))), &std::free);
  if (memory == nullptr) throw std::bad_alloc();
  std::byte* data = memory.get();
  const auto part_of = [&](int thread) { return split_range(bytes, thread, pool.size(), kGrain); };
  pool.run([&](int thread) {
    const Range part = part_of(thread);
    os::take_large_pages(data + part.begin, part.end - part.begin);
    std::fill(data + part.begin, data + part.end, std::byte{1});
  });
  std::atomic<uint64_t> sink{0};
  const auto rate_of = [&](size_t way, int rounds) {
    return best_rate(pool, rounds, static_cast<double>(bytes), [&](int thread) {
      const Range part = part_of(thread);
      const std::byte* begin = data + part.begin;
      const int64_t size = part.end - part.begin;
      sink += way == 0 ? vec.read_all(begin, size)
                       : kReadings[way - 1].run(begin, size, kReadings[way - 1].ahead);
    });
  };
  // Each way once, then the two best ones several times: half a second in all.
  std::vector<std::pair<double, size_t>> rates;
  for (size_t way = 0; way <= std::size(kReadings); ++way) rates.emplace_back(rate_of(way, 1), way);
  std::ranges::sort(rates, std::greater());
  double best = rates[0].first;
  for (size_t i = 0; i < 2; ++i) best = std::max(best, rate_of(rates[i].second, 3));
  ceilings.read_bandwidth_gb_s = best / 1e9;

  if (vec.int8_products != nullptr) {
    constexpr int64_t kRounds = 2'000'000;
    const double macs = static_cast<double>(vec.int8_products(kRounds)) * pool.size();
    ceilings.int8_mac_g_s =
        best_rate(pool, 6, macs, [&](int) { vec.int8_products(kRounds); }) / 1e9;
  }
  return ceilings;
}

}  // namespace infer::cpu
