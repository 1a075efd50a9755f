#include "backends/cuda/pinned_memory.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "engine/core/checked.h"
#include "engine/core/log.h"
#include "engine/core/platform/memory.h"

namespace infer::cuda {
namespace {

/// Less than this is copied as quickly without being pinned.
constexpr uintptr_t kWorthPinning = uintptr_t{128} << 10;
constexpr uintptr_t kPage = 4096;

/// What is pinned in this process: no page is pinned twice.
struct Pinned {
  std::mutex mutex;
  std::map<uintptr_t, uintptr_t> ends;  ///< by begin
  uintptr_t bytes = 0;

  /// The first range that ends behind `at`.
  auto from(uintptr_t at) const {
    auto it = ends.upper_bound(at);
    if (it != ends.begin() && std::prev(it)->second > at) --it;
    return it;
  }
};

Pinned& pinned() {
  static Pinned all;
  return all;
}

}  // namespace

PinnedMemory::~PinnedMemory() {
  Pinned& all = pinned();
  const std::lock_guard lock(all.mutex);
  const bool entered = context_.enter().ok();
  for (const uintptr_t begin : own_) {
    if (entered) (void)context_.cu().cuMemHostUnregister(reinterpret_cast<void*>(begin));
    const auto it = all.ends.find(begin);
    all.bytes -= it->second - begin;
    all.ends.erase(it);
  }
}

void PinnedMemory::pin(std::vector<std::span<const std::byte>> parts) {
  const std::lock_guard lock(pinned().mutex);
  std::ranges::sort(parts, {}, [](const auto& part) { return part.data(); });
  uintptr_t begin = 0;
  uintptr_t end = 0;
  for (const std::span<const std::byte> part : parts) {
    const auto data = reinterpret_cast<uintptr_t>(part.data());
    if (data / kPage * kPage > end) {
      pin_free(begin, end);
      begin = data / kPage * kPage;
    }
    end = std::max(end, round_up<uintptr_t>(data + part.size(), kPage));
  }
  pin_free(begin, end);
}

void PinnedMemory::pin_free(uintptr_t begin, uintptr_t end) {
  const Pinned& all = pinned();
  while (begin < end) {
    const auto next = all.from(begin);
    const uintptr_t free_to = next == all.ends.end() ? end : std::min(end, next->first);
    const uintptr_t behind = next == all.ends.end() ? end : next->second;
    if (begin < free_to) pin_together(begin, free_to);
    begin = std::max(free_to, free_to < end ? behind : end);
  }
}

void PinnedMemory::pin_together(uintptr_t begin, uintptr_t end) {
  if (end - begin < kWorthPinning) return;
  Pinned& all = pinned();
  // A mapped file may be larger than the memory, which other programs use too.
  const int64_t most = os::host_memory().total / 4 * 3;
  if (static_cast<int64_t>(all.bytes + (end - begin)) > most) {
    tell("it could not hold them all in place");
    return;
  }
  const auto with = [&](unsigned flags) {
    return context_.cu().cuMemHostRegister(reinterpret_cast<void*>(begin), end - begin, flags);
  };
  CUresult result = with(CU_MEMHOSTREGISTER_PORTABLE);
  // Of a mapped file this process can write nothing, and no device may.
  if (result != CUDA_SUCCESS) {
    result = with(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_READ_ONLY);
  }
  const Status status = context_.check(result, "cannot pin weights in the host's memory");
  if (!status.ok()) {
    tell(status.message().c_str());
    return;
  }
  own_.push_back(begin);
  all.ends[begin] = end;
  all.bytes += end - begin;
}

void PinnedMemory::tell(const char* why) {
  if (!told_) log(LogLevel::info, "weights in the host's memory are copied more slowly: {}", why);
  told_ = true;
}

int64_t PinnedMemory::together(const std::byte* from, int64_t bytes) {
  Pinned& all = pinned();
  const std::lock_guard lock(all.mutex);
  const auto at = reinterpret_cast<uintptr_t>(from);
  const auto it = all.from(at);
  if (it == all.ends.end()) return bytes;
  const uintptr_t end = it->first <= at ? it->second : it->first;
  return std::min(bytes, static_cast<int64_t>(end - at));
}

}  // namespace infer::cuda
