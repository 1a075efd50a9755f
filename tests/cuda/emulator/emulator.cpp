#include "tests/cuda/emulator/emulator.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/cuda/emulator/device.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define EMULATOR_ASAN 1
#else
#define EMULATOR_ASAN 0
#endif
// Whether a thread goes on directly where another waits. Jumps would confuse AddressSanitizer, and
// clang has none for other processors.
#if EMULATOR_ASAN || (defined(__clang__) && !defined(__x86_64__))
#define EMULATOR_JUMPS 0
#else
#define EMULATOR_JUMPS 1
#endif

namespace infer::emulator {
namespace {

constexpr uint32_t kWarp = 32;
constexpr size_t kWord = 4;  ///< bytes that are watched together
constexpr size_t kStack = EMULATOR_ASAN ? 512 << 10 : 128 << 10;
constexpr uint32_t kMostWarps = 32;
constexpr uint32_t kMostBarriers = 16;

Kernel*& list() {
  static Kernel* first = nullptr;
  return first;
}

struct Fault {
  std::string what;
};

/// A generator of the orders of threads (Steele et al. 2014, SplitMix64).
struct Random {
  uint64_t state;
  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint32_t below(size_t n) { return static_cast<uint32_t>((next() >> 32) * n >> 32); }
};

/// What is known of a word of shared memory. Threads count from 1; 0: none. A clock is that of the
/// thread's warp at the access.
struct Shadow {
  uint32_t write_clock = 0;
  uint32_t read_clock = 0;
  uint16_t writer = 0;
  uint16_t reader = 0;
  uint8_t written = 0;     ///< kWritten, kShown
  uint8_t atomic = 0;      ///< the last write was part of an atomic operation
  uint16_t in_flight = 0;  ///< asynchronous copies on their way here
};

constexpr uint8_t kWritten = 1;
constexpr uint8_t kShown = 2;  ///< to products as well

struct Copy {
  std::byte* to;
  uint64_t from;
  uint32_t bytes;
};

struct Fiber {
  std::byte* stack = nullptr;
  ucontext_t context;
  void* env[5];  ///< __builtin_setjmp
  bool started = false;
  enum class State : uint8_t { ready, waiting, done } state = State::done;
  Place place;
  bool uses_memory = false;  ///< wait_for_last() was called
  const char* waits_for = "";
  int site = 0;
  std::vector<Copy> copies;
  std::vector<size_t> groups;  ///< of copies: their ends
  std::vector<Copy> landed;    ///< copies that products have not been shown
  Products products;
#if EMULATOR_ASAN
  void* fake = nullptr;
#endif
};

struct Barrier {
  uint32_t count = 0;
  int site = 0;
  std::vector<uint32_t> arrived;
};

/// An operation of a warp that some of its lanes have reached.
struct Warp {
  uint32_t arrived = 0;
  int site = 0;
  Collective operation = nullptr;
  alignas(16) std::byte in[kWarp * kSlot];
  alignas(16) std::byte out[kWarp * kSlot];
};

/// A barrier that counts the bytes of copies.
struct BulkBarrier {
  uint32_t phases = 0;  ///< that have ended
  bool expects = false;
  size_t expected = 0;
  size_t brought = 0;
  std::vector<Copy> copies;
  std::map<uint32_t, uint32_t> clocks;  ///< by warp: when it started one of them
};

struct Array {
  const void* key;
  size_t begin;
  size_t bytes;
};

/// Runs blocks of one kernel, one after another, on one OS thread.
class Worker {
 public:
  explicit Worker(uint32_t threads) : fibers_(threads) {
    for (Fiber& fiber : fibers_) {
      void* const memory = mmap(nullptr, kStack, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) std::abort();
      fiber.stack = static_cast<std::byte*>(memory);
    }
    shared_.reserve(kMostShared);
  }
  ~Worker() {
    for (Fiber& fiber : fibers_) munmap(fiber.stack, kStack);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::string run(const Kernel& kernel, const Launch& launch, const Memory& memory,
                  const void* params, Dim block);

  void barrier(uint32_t id, uint32_t count, int site);
  void warp_barrier(int site);
  void collective(Collective compute, const void* in, size_t in_bytes, void* out, size_t out_bytes,
                  int site);
  std::byte* shared_array(const void* key, size_t bytes);
  std::byte* dynamic_shared(size_t offset, size_t bytes);
  void access(const std::byte* at, size_t bytes, Access access);
  void async_copy(std::byte* to, uint64_t from, uint32_t bytes);
  void async_wait(uint32_t pending);
  void show_products();
  void bulk_barrier(std::byte* at);
  void bulk_expect(std::byte* at, uint32_t bytes);
  void bulk_copy(std::byte* to, uint64_t from, uint32_t bytes, std::byte* barrier);
  void bulk_wait(std::byte* at, uint32_t parity);
  size_t shared_offset(const std::byte* at) const {
    return static_cast<size_t>(at - shared_.data());
  }
  std::byte* shared_place(size_t offset, size_t bytes) {
    if (offset + bytes > shared_.size()) fault("a product of what is behind shared memory");
    return shared_.data() + offset;
  }
  Fiber& current() { return *current_; }
  /// Most accesses are to one of a few allocations.
  Range allocation(uint64_t address) {
    for (const Range& range : recent_) {
      if (address >= range.begin && address < range.end) return range;
    }
    const Range found = memory_->find(address);
    recent_[next_recent_++ % std::size(recent_)] = found;
    return found;
  }

 private:
  static constexpr size_t kMostShared = 256 << 10;
  /// Between arrays: an access behind one of them does not hit the next.
  static constexpr size_t kGuard = 64;

  static void entry();
  Fiber* next();
  void run_all();
  void resume(Fiber& fiber);
  void suspend();
  void wake(uint32_t thread) {
    fibers_[thread].state = Fiber::State::ready;
    ready_.push_back(thread);
  }
  std::string stuck() const;
  std::string at_block(const std::string& what) const;
  uint32_t tid() const { return current_->place.thread; }
  [[noreturn]] void race(const char* first, const char* second, uint16_t other, size_t at) const;
  void take_copies(Fiber& fiber, size_t until);
  BulkBarrier& bulk_at(std::byte* at);

  std::vector<Fiber> fibers_;
  std::vector<uint32_t> ready_;
  Fiber* current_ = nullptr;
  const Kernel* kernel_ = nullptr;
  const Memory* memory_ = nullptr;
  const void* params_ = nullptr;
  int left_out_ = 0;  ///< Launch::left_out
  std::string failed_;
  Dim block_;
  uint32_t threads_ = 0;
  Random random_{0};
  Barrier barriers_[kMostBarriers];
  std::map<const std::byte*, BulkBarrier> bulk_;
  Warp warps_[kMostWarps];
  uint32_t clocks_[kMostWarps][kMostWarps] = {};  ///< by warp: what it knows of each warp
  std::vector<std::byte> shared_;
  std::vector<Shadow> shadow_;
  std::vector<Array> arrays_;
  size_t dynamic_bytes_ = 0;
  size_t most_shared_ = 0;  ///< Launch::most_shared
  Range recent_[6];
  uint32_t next_recent_ = 0;
  void* back_[5];  ///< __builtin_setjmp
  ucontext_t back_context_;
#if EMULATOR_ASAN
  void* own_fake_ = nullptr;
  const void* own_stack_ = nullptr;
  size_t own_size_ = 0;
#endif
};

/// Found without a call, though this is a library that is opened later.
[[gnu::tls_model("initial-exec")]] thread_local Worker* worker = nullptr;

void Worker::entry() {
  for (;;) {
    Worker& own = *worker;
#if EMULATOR_ASAN
    __sanitizer_finish_switch_fiber(own.current_->fake, &own.own_stack_, &own.own_size_);
#endif
    try {
      own.kernel_->run(own.params_);
      own.take_copies(*own.current_, own.current_->copies.size());
      if (!own.current_->products.running.empty()) fault("products run when the thread ends");
    } catch (const Fault& fault) {
      if (own.failed_.empty()) {
        own.failed_ = "thread " + std::to_string(own.tid()) + ": " + fault.what;
      }
    }
    own.current_->state = Fiber::State::done;
    own.suspend();
  }
}

/// The thread that goes on; null: none can, or one has failed.
Fiber* Worker::next() {
  if (ready_.empty() || !failed_.empty()) return nullptr;
  const uint32_t pick = random_.below(ready_.size());
  current_ = &fibers_[ready_[pick]];
  ready_[pick] = ready_.back();
  ready_.pop_back();
  return current_;
}

void Worker::resume(Fiber& fiber) {
  const bool first = !fiber.started;
  if (first) {
    fiber.started = true;
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack;
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, &Worker::entry, 0);
  }
#if EMULATOR_JUMPS
  if (!first) __builtin_longjmp(fiber.env, 1);
  setcontext(&fiber.context);
#else
#if EMULATOR_ASAN
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, fiber.stack, kStack);
#endif
  swapcontext(&back_context_, &fiber.context);
#if EMULATOR_ASAN
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
#endif
}

/// Runs the threads until none can go on.
[[gnu::noinline]] void Worker::run_all() {
#if EMULATOR_JUMPS
  if (__builtin_setjmp(back_) != 0) return;
  if (Fiber* const fiber = next()) resume(*fiber);
#else
  while (Fiber* const fiber = next()) resume(*fiber);
#endif
}

/// Lets others run; comes back when the thread is picked again.
[[gnu::noinline]] void Worker::suspend() {
#if EMULATOR_JUMPS
  if (__builtin_setjmp(current_->env) != 0) return;
  if (Fiber* const fiber = next()) resume(*fiber);
  __builtin_longjmp(back_, 1);
#else
  Fiber& own = *current_;
#if EMULATOR_ASAN
  __sanitizer_start_switch_fiber(&own.fake, own_stack_, own_size_);
#endif
  swapcontext(&own.context, &back_context_);
#if EMULATOR_ASAN
  if (own.state != Fiber::State::done) {
    __sanitizer_finish_switch_fiber(own.fake, &own_stack_, &own_size_);
  }
#endif
#endif
}

std::string Worker::at_block(const std::string& what) const {
  return std::string(kernel_->name) + ", block (" + std::to_string(block_.x) + ", " +
         std::to_string(block_.y) + ", " + std::to_string(block_.z) + "), " + what;
}

std::string Worker::stuck() const {
  uint32_t waiting = 0;
  uint32_t done = 0;
  const Fiber* first = nullptr;
  for (uint32_t t = 0; t < threads_; ++t) {
    if (fibers_[t].state == Fiber::State::done) {
      ++done;
    } else if (++waiting == 1) {
      first = &fibers_[t];
    }
  }
  return "divergence: " + std::to_string(waiting) + " threads wait, the first of them (" +
         std::to_string(first->place.thread) + ") for " + first->waits_for + " at line " +
         std::to_string(first->site) + ", and " + std::to_string(done) + " have ended";
}

std::string Worker::run(const Kernel& kernel, const Launch& launch, const Memory& memory,
                        const void* params, Dim block) {
  worker = this;
  kernel_ = &kernel;
  memory_ = &memory;
  std::ranges::fill(recent_, Range());
  params_ = params;
  block_ = block;
  threads_ = launch.threads;
  failed_.clear();
  const uint64_t number =
      block.x + uint64_t{launch.grid.x} * (block.y + uint64_t{launch.grid.y} * block.z);
  left_out_ = launch.left_out;
  random_.state = launch.seed * 0x2545f4914f6cdd1d + number;
  dynamic_bytes_ = launch.shared_bytes;
  most_shared_ = launch.most_shared;
  shared_.assign(dynamic_bytes_, std::byte{0xa5});
  shadow_.assign((dynamic_bytes_ + kWord - 1) / kWord, Shadow());
  arrays_.clear();
  std::memset(clocks_, 0, sizeof(clocks_));
  for (uint32_t w = 0; w < kMostWarps; ++w) {
    warps_[w].arrived = 0;
    clocks_[w][w] = 1;
  }
  for (Barrier& barrier : barriers_) barrier.arrived.clear();
  bulk_.clear();
  ready_.clear();
  for (uint32_t t = 0; t < threads_; ++t) {
    Fiber& fiber = fibers_[t];
    fiber.place = {block, launch.grid, t, threads_};
    fiber.uses_memory = false;
    fiber.copies.clear();
    fiber.groups.clear();
    fiber.landed.clear();
    fiber.products = {};
    wake(t);
  }
  run_all();
  if (failed_.empty()) {
    const bool all_done = std::ranges::all_of(
        fibers_, [](const Fiber& fiber) { return fiber.state == Fiber::State::done; });
    if (!all_done) failed_ = stuck();
  }
  if (failed_.empty()) return {};
  for (Fiber& fiber : fibers_) {  // those that wait are given up in the middle
    fiber.started = false;
    fiber.state = Fiber::State::done;
  }
  return at_block(failed_);
}

void Worker::barrier(uint32_t id, uint32_t count, int site) {
  if (site == left_out_) return;
  if (id >= kMostBarriers) fault("barrier " + std::to_string(id) + ": there are 16");
  if (count == 0 || count % kWarp != 0 || count > threads_) {
    fault("a barrier of " + std::to_string(count) + " threads");
  }
  Barrier& own = barriers_[id];
  if (own.arrived.empty()) {
    own.count = count;
    own.site = site;
  } else if (own.count != count || own.site != site) {
    fault("divergence: a barrier at line " + std::to_string(site) + " while others wait at line " +
          std::to_string(own.site));
  }
  own.arrived.push_back(tid());
  if (own.arrived.size() < count) {
    current_->state = Fiber::State::waiting;
    current_->waits_for = "a barrier";
    current_->site = site;
    suspend();
    return;
  }
  // What any of them did before is before what all of them do from now on.
  bool taken[kMostWarps] = {};
  uint32_t joined[kMostWarps] = {};
  for (const uint32_t t : own.arrived) {
    const uint32_t w = t / kWarp;
    if (taken[w]) continue;
    taken[w] = true;
    for (uint32_t o = 0; o < kMostWarps; ++o) joined[o] = std::max(joined[o], clocks_[w][o]);
  }
  for (uint32_t w = 0; w < kMostWarps; ++w) joined[w] += taken[w] ? 1 : 0;
  for (uint32_t w = 0; w < kMostWarps; ++w) {
    if (taken[w]) std::memcpy(clocks_[w], joined, sizeof(joined));
  }
  std::vector<uint32_t> arrived;
  arrived.swap(own.arrived);
  for (const uint32_t t : arrived) wake(t);
  suspend();
}

void Worker::warp_barrier(int site) {
  collective([](const std::byte*, std::byte*) {}, nullptr, 0, nullptr, 0, site);
}

void Worker::collective(Collective compute, const void* in, size_t in_bytes, void* out,
                        size_t out_bytes, int site) {
  const uint32_t w = tid() / kWarp;
  const uint32_t lane = tid() % kWarp;
  Warp& warp = warps_[w];
  if (in_bytes > kSlot || out_bytes > kSlot) fault("a warp's operation of too many bytes");
  if (warp.arrived == 0) {
    warp.operation = compute;
    warp.site = site;
  } else if (warp.operation != compute || warp.site != site) {
    fault("divergence: an operation of the warp at line " + std::to_string(site) +
          " while another lane is at line " + std::to_string(warp.site));
  }
  if (in_bytes > 0) std::memcpy(warp.in + lane * kSlot, in, in_bytes);
  current_->state = Fiber::State::waiting;
  current_->waits_for = "its warp";
  current_->site = site;
  if (++warp.arrived == kWarp) {
    warp.arrived = 0;
    compute(warp.in, warp.out);
    if (out_bytes == 0) ++clocks_[w][w];  // only a barrier orders what the lanes do in memory
    for (uint32_t l = 0; l < kWarp; ++l) wake(w * kWarp + l);
  }
  suspend();
  // The next operation of the warp is done once all lanes have come here.
  if (out_bytes > 0) std::memcpy(out, warp.out + lane * kSlot, out_bytes);
}

std::byte* Worker::shared_array(const void* key, size_t bytes) {
  for (const Array& array : arrays_) {
    if (array.key == key && array.bytes == bytes) return shared_.data() + array.begin;
  }
  size_t all = dynamic_bytes_ + bytes;
  for (const Array& array : arrays_) all += array.bytes;
  if (all > most_shared_) {
    fault("shared memory of " + std::to_string(all) + " bytes; the launch may have " +
          std::to_string(most_shared_));
  }
  const size_t begin = (shared_.size() + kGuard + 15) / 16 * 16;
  if (begin + bytes > kMostShared) fault("more shared memory than a block can have");
  shared_.resize(begin + bytes, std::byte{0xa5});  // reserved: does not move
  shadow_.resize((begin + bytes + kWord - 1) / kWord);
  arrays_.push_back({key, begin, bytes});
  return shared_.data() + begin;
}

std::byte* Worker::dynamic_shared(size_t offset, size_t bytes) {
  if (offset + bytes > dynamic_bytes_) {
    fault("dynamic shared memory of " + std::to_string(offset + bytes) + " bytes; the launch has " +
          std::to_string(dynamic_bytes_));
  }
  return shared_.data() + offset;
}

void Worker::race(const char* first, const char* second, uint16_t other, size_t at) const {
  fault(std::string("race: ") + first + " of shared byte " + std::to_string(at) +
        ", which thread " + std::to_string(other - 1) + " " + second +
        " with no barrier in between");
}

void Worker::access(const std::byte* at, size_t bytes, Access access) {
  const auto begin = static_cast<size_t>(at - shared_.data());
  const auto own = static_cast<uint16_t>(tid() + 1);
  const uint32_t(&known)[kMostWarps] = clocks_[tid() / kWarp];
  const uint32_t clock = known[tid() / kWarp];
  // Whether what a thread did at a clock of its warp is before what this thread does now.
  const auto ordered = [&](uint16_t other, uint32_t then) {
    return other == 0 || other == own || then < known[(other - 1u) / kWarp];
  };
  const bool reads = access == Access::read || access == Access::product;
  for (size_t i = begin; i < begin + bytes; i += kWord) {
    Shadow& s = shadow_[i / kWord];
    if (s.in_flight > 0) {
      fault("an access to shared memory where an asynchronous copy is under way");
    }
    if (access != Access::write && s.written == 0) {
      fault("a read of shared byte " + std::to_string(i) + ", which nobody has written");
    }
    if (access == Access::product && s.written != kShown) {
      fault("a product of shared byte " + std::to_string(i) + ", which it has not been shown");
    }
    const bool both_atomic = access == Access::atomic && s.atomic != 0;
    if (!ordered(s.writer, s.write_clock) && !both_atomic) {
      race(reads ? "a read" : "a write", "wrote", s.writer, i);
    }
    if (reads) {
      s.reader = own;
      s.read_clock = clock;
      continue;
    }
    if (!ordered(s.reader, s.read_clock)) race("a write", "read", s.reader, i);
    s.writer = own;
    s.write_clock = clock;
    s.written = kWritten;
    s.atomic = access == Access::atomic ? 1 : 0;
  }
}

void Worker::async_copy(std::byte* to, uint64_t from, uint32_t bytes) {
  const auto begin = static_cast<size_t>(to - shared_.data());
  access(to, bytes, Access::write);
  for (size_t i = begin; i < begin + bytes; i += kWord) ++shadow_[i / kWord].in_flight;
  current_->copies.push_back({to, from, bytes});
}

void Worker::take_copies(Fiber& fiber, size_t until) {
  for (size_t c = 0; c < until; ++c) {
    const Copy& copy = fiber.copies[c];
    const auto begin = static_cast<size_t>(copy.to - shared_.data());
    for (size_t i = begin; i < begin + copy.bytes; i += kWord) --shadow_[i / kWord].in_flight;
    std::memcpy(copy.to, reinterpret_cast<const void*>(copy.from), copy.bytes);
    access(copy.to, copy.bytes, Access::write);
    fiber.landed.push_back(copy);
  }
  fiber.copies.erase(fiber.copies.begin(), fiber.copies.begin() + static_cast<int64_t>(until));
}

void Worker::async_wait(uint32_t pending) {
  Fiber& own = *current_;
  if (own.groups.size() <= pending) return;
  const size_t taken = own.groups.size() - pending;
  const size_t until = own.groups[taken - 1];
  take_copies(own, until);
  own.groups.erase(own.groups.begin(), own.groups.begin() + static_cast<int64_t>(taken));
  for (size_t& end : own.groups) end -= until;
}

void Worker::show_products() {
  for (const Copy& copy : current_->landed) {
    access(copy.to, copy.bytes, Access::write);
    const size_t begin = shared_offset(copy.to);
    for (size_t i = begin; i < begin + copy.bytes; i += kWord) shadow_[i / kWord].written = kShown;
  }
  current_->landed.clear();
  const auto own = static_cast<uint16_t>(tid() + 1);
  for (Shadow& s : shadow_) {
    if (s.writer == own && s.written == kWritten) s.written = kShown;
  }
}

void Worker::bulk_barrier(std::byte* at) {
  access(at, sizeof(uint64_t), Access::write);
  bulk_[at] = {};
}

BulkBarrier& Worker::bulk_at(std::byte* at) {
  access(at, sizeof(uint64_t), Access::read);
  const auto it = bulk_.find(at);
  if (it == bulk_.end()) fault("shared memory that is no barrier of copies");
  return it->second;
}

void Worker::bulk_expect(std::byte* at, uint32_t bytes) {
  BulkBarrier& own = bulk_at(at);
  if (own.expects) fault("a barrier of copies that expects some already");
  own.expects = true;
  own.expected = bytes;
}

void Worker::bulk_copy(std::byte* to, uint64_t from, uint32_t bytes, std::byte* barrier) {
  BulkBarrier& own = bulk_at(barrier);
  access(to, bytes, Access::write);
  const size_t begin = shared_offset(to);
  for (size_t i = begin; i < begin + bytes; i += kWord) ++shadow_[i / kWord].in_flight;
  own.copies.push_back({to, from, bytes});
  own.brought += bytes;
  const uint32_t w = tid() / kWarp;
  own.clocks[w] = clocks_[w][w];
}

void Worker::bulk_wait(std::byte* at, uint32_t parity) {
  constexpr int kMostTries = 10000;
  BulkBarrier& own = bulk_at(at);
  for (int tries = 0; own.phases % 2 == parity; ++tries) {
    if (own.expects && own.brought >= own.expected) {
      if (own.brought > own.expected) fault("copies of more bytes than were expected");
      for (const Copy& copy : own.copies) {
        const size_t begin = shared_offset(copy.to);
        for (size_t i = begin; i < begin + copy.bytes; i += kWord) {
          --shadow_[i / kWord].in_flight;
          shadow_[i / kWord].written = kShown;
        }
        std::memcpy(copy.to, reinterpret_cast<const void*>(copy.from), copy.bytes);
      }
      own.copies.clear();
      own.expects = false;
      own.brought = 0;
      ++own.phases;
      break;
    }
    if (tries == kMostTries) fault("waits for copies that do not come");
    wake(tid());
    suspend();
  }
  // What was copied is before what the warp does now.
  uint32_t(&known)[kMostWarps] = clocks_[tid() / kWarp];
  for (const auto& [w, clock] : own.clocks) known[w] = std::max(known[w], clock + 1);
}

}  // namespace

Range Memory::find(uint64_t address) const {
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return {};
  --next;
  if (address >= next->second) return {};
  Range found{next->first, next->second};
  while (mapped_.contains(next->first) && ++next != ranges_.end() && next->first == found.end &&
         mapped_.contains(next->first)) {
    found.end = next->second;
  }
  return found;
}

Registration::Registration(const char* name, size_t param_bytes, uint32_t most_threads,
                           void (*run)(const void*))
    : kernel{name, param_bytes, most_threads, run, list()} {
  list() = &kernel;
}

const Kernel* first_kernel() { return list(); }

const Kernel* find_kernel(const std::string& name) {
  for (const Kernel* kernel = list(); kernel != nullptr; kernel = kernel->next) {
    if (name == kernel->name) return kernel;
  }
  return nullptr;
}

const Place& place() { return worker->current().place; }
void fault(const std::string& what) { throw Fault{what}; }
void barrier(uint32_t id, uint32_t count, int site) { worker->barrier(id, count, site); }
void warp_barrier(int site) { worker->warp_barrier(site); }
void collective(Collective compute, const void* in, size_t in_bytes, void* out, size_t out_bytes,
                int site) {
  worker->collective(compute, in, in_bytes, out, out_bytes, site);
}
std::byte* shared_array(const void* key, size_t bytes) { return worker->shared_array(key, bytes); }
std::byte* dynamic_shared(size_t offset, size_t bytes) {
  return worker->dynamic_shared(offset, bytes);
}
void shared_access(const std::byte* at, size_t bytes, Access access) {
  worker->access(at, bytes, access);
}
Range allocation(uint64_t address) {
  if (!worker->current().uses_memory) {
    fault("an access to memory before the kernel waits for the one before it");
  }
  return worker->allocation(address);
}
void wait_for_last() { worker->current().uses_memory = true; }
void ask_for(uint64_t address, size_t bytes) {
  const Range range = worker->allocation(address);
  if (range.end == 0 || address + bytes > range.end) {
    fault("asked for " + std::to_string(bytes) + " bytes outside of every allocation");
  }
}
void async_copy(std::byte* to, uint64_t from, uint32_t bytes) {
  worker->async_copy(to, from, bytes);
}
void async_commit() { worker->current().groups.push_back(worker->current().copies.size()); }
void async_wait(uint32_t pending) { worker->async_wait(pending); }
Products& products() { return worker->current().products; }
void show_products() { worker->show_products(); }
void bulk_barrier(std::byte* at) { worker->bulk_barrier(at); }
void bulk_expect(std::byte* at, uint32_t bytes) { worker->bulk_expect(at, bytes); }
void bulk_copy(std::byte* to, uint64_t from, uint32_t bytes, std::byte* barrier) {
  worker->bulk_copy(to, from, bytes, barrier);
}
void bulk_wait(std::byte* at, uint32_t parity) { worker->bulk_wait(at, parity); }
size_t shared_offset(const std::byte* at) { return worker->shared_offset(at); }
std::byte* shared_place(size_t offset, size_t bytes) { return worker->shared_place(offset, bytes); }

std::string launch(const Kernel& kernel, const Launch& launch, const Memory& memory,
                   const void* params) {
  if (launch.threads == 0 || launch.threads > kMostWarps * kWarp ||
      launch.threads > kernel.most_threads) {
    return std::string(kernel.name) + ": a block of " + std::to_string(launch.threads) +
           " threads; at most " + std::to_string(kernel.most_threads);
  }
  const uint64_t blocks = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  std::atomic<uint64_t> next{0};
  std::mutex mutex;
  std::string failed;
  uint64_t failed_block = blocks;
  const auto work = [&] {
    // Fibers are kept by their OS thread from launch to launch.
    thread_local std::vector<std::unique_ptr<Worker>> kept(kMostWarps + 1);
    std::unique_ptr<Worker>& own = kept[(launch.threads + kWarp - 1) / kWarp];
    std::unique_ptr<Worker> odd;
    if (launch.threads % kWarp != 0) odd = std::make_unique<Worker>(launch.threads);
    if (odd == nullptr && own == nullptr) own = std::make_unique<Worker>(launch.threads);
    Worker& runs = odd != nullptr ? *odd : *own;
    for (uint64_t b = next++; b < blocks; b = next++) {
      const Dim block{static_cast<uint32_t>(b % launch.grid.x),
                      static_cast<uint32_t>(b / launch.grid.x % launch.grid.y),
                      static_cast<uint32_t>(b / launch.grid.x / launch.grid.y)};
      std::string fault = runs.run(kernel, launch, memory, params, block);
      if (fault.empty()) continue;
      const std::lock_guard lock(mutex);
      if (b < failed_block) {
        failed_block = b;
        failed = std::move(fault);
      }
      next = blocks;
    }
    worker = nullptr;
  };
  const int workers = static_cast<int>(std::min<uint64_t>(std::max(launch.workers, 1), blocks));
  std::vector<std::thread> others;
  for (int w = 1; w < workers; ++w) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return failed;
}

}  // namespace infer::emulator
