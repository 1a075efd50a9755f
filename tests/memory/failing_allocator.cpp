#include "tests/memory/failing_allocator.h"

#include <execinfo.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <new>

namespace infer::test {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

std::atomic<int64_t> g_live{0};
std::atomic<int64_t> g_asked{0};
std::atomic<int64_t> g_first{kNever};
std::atomic<int64_t> g_end{kNever};

/// Blocks of aligned_alloc, which alone are counted when they are freed.
std::array<std::atomic<void*>, 256> g_aligned{};

/// A chain of calls that asked for memory, and the first and the last number of what it asked for.
struct Chain {
  uint64_t hash = 0;  ///< 0: an empty place
  int64_t first = 0;
  int64_t last = 0;
};

std::atomic<bool> g_noting{false};
std::mutex g_chains_mutex;
std::array<Chain, 1 << 14> g_chains;

/// Takes no memory by the functions that are counted here.
void note(int64_t number) {
  // Enough to tell a step of the model that drafts from one of the model itself. Whole stacks would
  // tell apart the branches of a recursion.
  constexpr int kMostCalls = 14;
  void* calls[kMostCalls];
  const int depth = backtrace(calls, kMostCalls);
  uint64_t hash = 0xcbf29ce484222325u;
  for (int i = 0; i < depth; ++i) {
    hash = (hash ^ reinterpret_cast<uintptr_t>(calls[i])) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  hash |= 1;
  const std::lock_guard lock(g_chains_mutex);
  size_t at = hash % g_chains.size();
  for (size_t tried = 0; g_chains[at].hash != 0 && g_chains[at].hash != hash; ++tried) {
    if (tried == g_chains.size()) std::abort();  // more of them than this test has any use for
    at = (at + 1) % g_chains.size();
  }
  Chain& chain = g_chains[at];
  if (chain.hash == 0) chain = {hash, number, number};
  chain.first = std::min(chain.first, number);
  chain.last = std::max(chain.last, number);
}

bool allowed() {
  const int64_t number = g_asked.fetch_add(1);
  if (g_noting.load()) note(number);
  return number < g_first.load() || number >= g_end.load();
}

}  // namespace

int64_t live_allocations() { return g_live.load(); }

void fail_allocation(int64_t first, Failing failing) {
  g_asked.store(0);
  g_end.store(failing == Failing::one ? first + 1 : kNever);
  g_first.store(first);
}

void note_allocations() {
  g_chains.fill({});
  g_asked.store(0);
  g_noting.store(true);
}

Places distinct_allocations() {
  g_noting.store(false);
  Places places;
  for (const Chain& chain : g_chains) {
    if (chain.hash == 0) continue;
    places.first.push_back(chain.first);
    places.last.push_back(chain.last);
  }
  return places;
}

int64_t stop_failing() {
  g_first.store(kNever);
  g_end.store(kNever);
  return g_asked.exchange(0);
}

}  // namespace infer::test

using namespace infer::test;

// The names that the linker's --wrap asks for.
extern "C" {
void* __real_aligned_alloc(size_t alignment, size_t size);
void __real_free(void* block);

void* __wrap_aligned_alloc(size_t alignment, size_t size) {
  void* block = allowed() ? __real_aligned_alloc(alignment, size) : nullptr;
  if (block == nullptr) return nullptr;
  for (std::atomic<void*>& place : g_aligned) {
    void* none = nullptr;
    if (!place.compare_exchange_strong(none, block)) continue;
    g_live.fetch_add(1);
    return block;
  }
  std::abort();  // more of them than this test has any use for
}

void __wrap_free(void* block) {
  for (std::atomic<void*>& place : g_aligned) {
    void* expected = block;
    if (block != nullptr && place.compare_exchange_strong(expected, nullptr)) g_live.fetch_sub(1);
  }
  __real_free(block);
}
}

namespace {

void* allocate(size_t size, size_t alignment) {
  const size_t rounded = (size + alignment - 1) / alignment * alignment;
  void* block =
      allowed() ? __real_aligned_alloc(alignment, rounded == 0 ? alignment : rounded) : nullptr;
  if (block == nullptr) throw std::bad_alloc();
  g_live.fetch_add(1);
  return block;
}

void release(void* block) noexcept {
  if (block == nullptr) return;
  g_live.fetch_sub(1);
  __real_free(block);
}

void* try_to_allocate(size_t size, size_t alignment) noexcept {
  try {
    return allocate(size, alignment);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

constexpr size_t kPlain = alignof(std::max_align_t);

}  // namespace

// All forms: sanitizers have their own of those that the standard library makes of others.
void* operator new(size_t size) { return allocate(size, kPlain); }
void* operator new[](size_t size) { return allocate(size, kPlain); }
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return try_to_allocate(size, kPlain);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return try_to_allocate(size, kPlain);
}
void* operator new(size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* block) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete(void* block, size_t) noexcept { release(block); }
void operator delete[](void* block, size_t) noexcept { release(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { release(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { release(block); }
void operator delete(void* block, std::align_val_t) noexcept { release(block); }
void operator delete[](void* block, std::align_val_t) noexcept { release(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { release(block); }
void operator delete[](void* block, size_t, std::align_val_t) noexcept { release(block); }
