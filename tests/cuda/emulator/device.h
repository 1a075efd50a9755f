// What kernels see in place of backends/cuda/device when the host's compiler compiles them:
// included before every emulated .cu file. The names and meanings are those of that folder's
// headers.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "engine/core/half.h"
#include "tests/cuda/emulator/emulator.h"

#define INFER_CUDA_EMULATED 1
/// Joins two names, macros expanded.
#define INFER_JOIN_(a, b) a##b
#define INFER_JOIN(a, b) INFER_JOIN_(a, b)
#define INFER_DEVICE inline

namespace infer::emulator {

/// Adds a kernel to the list of find_kernel().
struct Registration {
  Kernel kernel;
  Registration(const char* name, size_t param_bytes, uint32_t most_threads,
               void (*run)(const void*));
};

// Of the running thread.
struct Place {
  Dim block;
  Dim grid;
  uint32_t thread = 0;
  uint32_t threads = 0;
};
const Place& place();

[[noreturn]] void fault(const std::string& what);

/// A barrier of `count` threads. `site`: the line of the call.
void barrier(uint32_t id, uint32_t count, int site);
void warp_barrier(int site);

/// An operation of all lanes of a warp. Every lane gives `bytes` bytes; the last one to arrive
/// calls compute(in, out, argument) for all of them, with a slot of kSlot bytes for each lane.
inline constexpr size_t kSlot = 64;
using Collective = void (*)(const std::byte* in, std::byte* out);
void collective(Collective compute, const void* in, size_t in_bytes, void* out, size_t out_bytes,
                int site);

/// An array in the block's shared memory: the same for all threads with the same key.
std::byte* shared_array(const void* key, size_t bytes);
std::byte* dynamic_shared(size_t offset, size_t bytes);
/// product: a read by the asynchronous proxy.
enum class Access : uint8_t { read, write, atomic, product };
/// Checks an access to shared memory, and records it.
void shared_access(const std::byte* at, size_t bytes, Access access);

/// The allocation of an address. A fault before wait_for_last().
Range allocation(uint64_t address);
/// The thread may use memory from here on.
void wait_for_last();
/// Checks that there are `bytes` bytes at an address.
void ask_for(uint64_t address, size_t bytes);

/// Copies 16 bytes (or fewer, with zeros behind) into shared memory when the thread waits for them.
void async_copy(std::byte* to, uint64_t from, uint32_t bytes);
void async_commit();
void async_wait(uint32_t pending);

// Barriers in shared memory that count the bytes of copies: bulk_copy.h.
void bulk_barrier(std::byte* at);
void bulk_expect(std::byte* at, uint32_t bytes);
void bulk_copy(std::byte* to, uint64_t from, uint32_t bytes, std::byte* barrier);
void bulk_wait(std::byte* at, uint32_t parity);

/// A product of a warpgroup that runs beside the thread: warpgroup.h.
struct Product {
  float* sums;
  const uint32_t* a;
  uint32_t a_was[4];
  uint64_t matrix;            ///< the descriptor of B
  std::vector<float> values;  ///< that the sums will have
};
struct Products {
  std::vector<Product> running;
  std::vector<size_t> groups;  ///< their ends
  bool fenced = false;
};
/// Those of the thread.
Products& products();
/// Products may read what the thread has written, and what its asynchronous copies have brought.
void show_products();
size_t shared_offset(const std::byte* at);
/// A fault outside of the block's shared memory.
std::byte* shared_place(size_t offset, size_t bytes);

}  // namespace infer::emulator

namespace infer::cuda {

namespace emu = ::infer::emulator;

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
struct alignas(8) uint2 {
  uint32_t x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};

// ---- block.h
template <uint32_t kNumber>
struct Constant {
  static constexpr uint32_t kValue = kNumber;
};
inline constexpr bool kBeginsEarly = true;
#define INFER_KERNEL(name, Params, most_threads, blocks) \
  INFER_KERNEL_AHEAD(name, Params, most_threads, blocks, [](const Params&) {})
#define INFER_KERNEL_AHEAD(name, Params, most_threads, blocks, ahead) \
  INFER_EMULATED_KERNEL(name, Params, most_threads, ahead)
#define INFER_EMULATED_KERNEL(name, Params, most_threads, ahead)    \
  static void name##_body(const Params& p);                         \
  static const ::infer::emulator::Registration name##_registration( \
      #name, sizeof(Params), most_threads, [](const void* params) { \
        const Params& p = *static_cast<const Params*>(params);      \
        ahead(p);                                                   \
        ::infer::emulator::wait_for_last();                         \
        name##_body(p);                                             \
      });                                                           \
  static void name##_body(const Params& p)

#define INFER_KERNEL_THAT_WAITS(name, Params, most_threads, blocks)               \
  static void INFER_JOIN(name, _body)(const Params& p);                           \
  static const ::infer::emulator::Registration INFER_JOIN(name, _registration)(   \
      INFER_NAME_OF(name), sizeof(Params), most_threads, [](const void* params) { \
        INFER_JOIN(name, _body)(*static_cast<const Params*>(params));             \
      });                                                                         \
  static void INFER_JOIN(name, _body)(const Params& p)
#define INFER_NAME_OF_(name) #name
#define INFER_NAME_OF(name) INFER_NAME_OF_(name)
inline void wait_for_last() { emu::wait_for_last(); }

inline uint32_t thread() { return emu::place().thread; }
inline uint32_t threads() { return emu::place().threads; }
inline uint32_t lane() { return thread() % 32; }
inline uint32_t warp() { return thread() / 32; }
inline uint32_t block_x() { return emu::place().block.x; }
inline uint32_t block_y() { return emu::place().block.y; }
inline uint32_t block_z() { return emu::place().block.z; }
inline uint32_t grid_x() { return emu::place().grid.x; }
inline uint32_t grid_y() { return emu::place().grid.y; }

inline void sync_block(int site = __builtin_LINE()) { emu::barrier(0, threads(), site); }
inline void sync_named(uint32_t id, uint32_t count, int site = __builtin_LINE()) {
  emu::barrier(id, count, site);
}
inline void sync_warp(int site = __builtin_LINE()) { emu::warp_barrier(site); }

namespace detail {
template <typename T, typename Pick>
T exchange(T value, uint32_t argument, Pick, int site) {
  static_assert(sizeof(T) == 4 && std::is_empty_v<Pick>);
  struct In {
    T value;
    uint32_t argument;
  } in{value, argument};
  T out;
  emu::collective(
      [](const std::byte* all, std::byte* outs) {
        for (uint32_t l = 0; l < 32; ++l) {
          In own;
          std::memcpy(&own, all + l * emu::kSlot, sizeof(own));
          const uint32_t from = Pick()(l, own.argument);
          std::memcpy(outs + l * emu::kSlot, all + from * emu::kSlot, sizeof(T));
        }
      },
      &in, sizeof(in), &out, sizeof(out), site);
  return out;
}
}  // namespace detail

template <typename T>
T shuffle(T value, uint32_t from, int site = __builtin_LINE()) {
  return detail::exchange(
      value, from, [](uint32_t, uint32_t a) { return a % 32; }, site);
}
template <typename T>
T shuffle_xor(T value, uint32_t mask, int site = __builtin_LINE()) {
  return detail::exchange(
      value, mask, [](uint32_t l, uint32_t a) { return (l ^ a) % 32; }, site);
}
inline uint32_t ballot(bool value, int site = __builtin_LINE()) {
  const uint32_t in = value ? 1 : 0;
  uint32_t out = 0;
  emu::collective(
      [](const std::byte* all, std::byte* outs) {
        uint32_t votes = 0;
        for (uint32_t l = 0; l < 32; ++l) {
          uint32_t vote;
          std::memcpy(&vote, all + l * emu::kSlot, 4);
          votes |= vote << l;
        }
        for (uint32_t l = 0; l < 32; ++l) std::memcpy(outs + l * emu::kSlot, &votes, 4);
      },
      &in, 4, &out, 4, site);
  return out;
}

template <typename T>
class SharedPtr;

/// An element of shared memory.
template <typename T>
class SharedRef {
 public:
  explicit SharedRef(std::byte* at) : at_(at) {}
  SharedRef(const SharedRef&) = default;
  operator T() const {
    emu::shared_access(at_, sizeof(T), emu::Access::read);
    T value;
    std::memcpy(&value, at_, sizeof(T));
    return value;
  }
  const SharedRef& operator=(const T& value) const {
    emu::shared_access(at_, sizeof(T), emu::Access::write);
    std::memcpy(at_, &value, sizeof(T));
    return *this;
  }
  const SharedRef& operator=(const SharedRef& other) const { return *this = static_cast<T>(other); }
  const SharedRef& operator+=(const T& value) const {
    return *this = static_cast<T>(*this) + value;
  }

 private:
  std::byte* at_;
};

/// A place in an array in shared memory; `T*` on a GPU.
template <typename T>
class SharedPtr {
  static_assert(sizeof(T) % 4 == 0);  // what threads do is watched by words

 public:
  SharedPtr(std::byte* begin, int64_t count, int64_t at) : begin_(begin), count_(count), at_(at) {}
  SharedRef<T> operator[](int64_t i) const { return SharedRef<T>(address(i, 1)); }
  SharedPtr operator+(int64_t i) const { return {begin_, count_, at_ + i}; }
  /// Checks that `count` elements from i on are in the array.
  std::byte* address(int64_t i, int64_t count) const {
    if (at_ + i < 0 || at_ + i + count > count_) {
      emu::fault("element " + std::to_string(at_ + i) + " of a shared array of " +
                 std::to_string(count_) + " elements");
    }
    return begin_ + (at_ + i) * static_cast<int64_t>(sizeof(T));
  }

 private:
  std::byte* begin_;
  int64_t count_;
  int64_t at_;
};

#define INFER_SHARED(type, name, count)                                                  \
  const ::infer::cuda::SharedPtr<type> name(::infer::emulator::shared_array(             \
                                                [] {                                     \
                                                  static char key;                       \
                                                  return static_cast<const void*>(&key); \
                                                }(),                                     \
                                                sizeof(type) * (count)),                 \
                                            count, 0)

template <typename T>
SharedPtr<T> dynamic_shared(uint32_t offset, uint32_t count) {
  return {emu::dynamic_shared(offset, sizeof(T) * count), count, 0};
}

/// A vector at element i.
template <typename V, typename T>
V load_shared(SharedPtr<T> from, int64_t i) {
  std::byte* const at = from.address(i, static_cast<int64_t>(sizeof(V) / sizeof(T)));
  if (reinterpret_cast<uintptr_t>(at) % sizeof(V) != 0) emu::fault("a misaligned shared vector");
  emu::shared_access(at, sizeof(V), emu::Access::read);
  V value;
  std::memcpy(&value, at, sizeof(V));
  return value;
}
template <typename V, typename T>
void store_shared(SharedPtr<T> to, int64_t i, const V& value) {
  std::byte* const at = to.address(i, static_cast<int64_t>(sizeof(V) / sizeof(T)));
  if (reinterpret_cast<uintptr_t>(at) % sizeof(V) != 0) emu::fault("a misaligned shared vector");
  emu::shared_access(at, sizeof(V), emu::Access::write);
  std::memcpy(at, &value, sizeof(V));
}

inline uint32_t kept(uint32_t value) { return value; }
template <typename T>
SharedPtr<T> kept(SharedPtr<T> at) {
  return at;
}

/// Returns the value before.
inline uint32_t atomic_add(SharedPtr<uint32_t> to, int64_t i, uint32_t value) {
  std::byte* const at = to.address(i, 1);
  emu::shared_access(at, 4, emu::Access::atomic);
  uint32_t before;
  std::memcpy(&before, at, 4);
  const uint32_t after = before + value;
  std::memcpy(at, &after, 4);
  return before;
}

// ---- memory.h
/// Device memory at an address; bounds are those of its allocation.
template <typename T>
class Global {
 public:
  explicit Global(uint64_t address) : at_(address) {}
  T& operator[](int64_t i) const {
    return *reinterpret_cast<T*>(checked(i, sizeof(T), alignof(T)));
  }
  uint64_t address() const { return at_; }
  /// The address of element i, which has to begin `bytes` bytes in the allocation.
  uint64_t checked(int64_t i, size_t bytes, size_t alignment) const {
    const uint64_t at = at_ + static_cast<uint64_t>(i * static_cast<int64_t>(sizeof(T)));
    if (at < range_.begin || at + bytes > range_.end) {
      range_ = emu::allocation(at);
      if (at < range_.begin || at + bytes > range_.end || range_.end == 0) {
        emu::fault("an access to " + std::to_string(bytes) + " bytes outside of every allocation");
      }
    }
    if (at % alignment != 0) emu::fault("a misaligned access to memory");
    return at;
  }

 private:
  uint64_t at_;
  mutable emu::Range range_;
};

/// A vector at element i.
template <typename V, typename T>
V load_as(const Global<T>& from, int64_t i) {
  V value;
  std::memcpy(&value, reinterpret_cast<const void*>(from.checked(i, sizeof(V), sizeof(V))),
              sizeof(V));
  return value;
}
/// The same for what is read once: weights.
template <typename V, typename T>
V load_once(const Global<T>& from, int64_t i) {
  return load_as<V>(from, i);
}
template <typename V, typename T>
V load_constant(const Global<T>& from, int64_t i) {
  return load_as<V>(from, i);
}
template <typename T>
T load_early(const Global<const T>& from, int64_t i) {
  const uint64_t address = from.address() + static_cast<uint64_t>(i) * sizeof(T);
  emu::ask_for(address, sizeof(T));
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof(T));
  return value;
}
template <typename V, typename T>
void store_as(const Global<T>& to, int64_t i, const V& value) {
  std::memcpy(reinterpret_cast<void*>(to.checked(i, sizeof(V), sizeof(V))), &value, sizeof(V));
}
template <typename T>
void ask_for(const Global<T>& from, int64_t i, uint32_t bytes) {
  emu::ask_for(from.address() + static_cast<uint64_t>(i) * sizeof(T), bytes);
}
// Both return the value before.
inline uint32_t atomic_add(const Global<uint32_t>& to, int64_t i, uint32_t value) {
  return std::atomic_ref<uint32_t>(to[i]).fetch_add(value, std::memory_order_relaxed);
}
inline uint32_t atomic_add_in_order(const Global<uint32_t>& to, int64_t i, uint32_t value) {
  return std::atomic_ref<uint32_t>(to[i]).fetch_add(value, std::memory_order_acq_rel);
}

// ---- math.h
inline uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
inline float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }
inline float half_of(uint32_t bits) { return f16_to_f32(static_cast<uint16_t>(bits)); }
inline uint32_t half_bits(float x) { return f32_to_f16(x); }
inline uint32_t packed_halves(float low, float high) {
  return half_bits(low) | half_bits(high) << 16;
}
// Sums and products of float16 are exact in double.
inline uint32_t add_halves(uint32_t a, uint32_t b) {
  const auto sum = [](uint32_t x, uint32_t y) {
    return f32_to_f16(static_cast<float>(double{half_of(x & 0xffffu)} + half_of(y & 0xffffu)));
  };
  return sum(a, b) | static_cast<uint32_t>(sum(a >> 16, b >> 16)) << 16;
}
inline uint32_t multiply_halves(uint32_t a, uint32_t b) {
  const auto product = [](uint32_t x, uint32_t y) {
    return f32_to_f16(half_of(x & 0xffffu) * half_of(y & 0xffffu));
  };
  return product(a, b) | static_cast<uint32_t>(product(a >> 16, b >> 16)) << 16;
}
/// The sum may be rounded twice where a double does not hold it: of numbers very far apart.
inline uint32_t fused_halves(uint32_t a, uint32_t b, uint32_t c) {
  const auto sum = [](uint32_t x, uint32_t y, uint32_t z) {
    const auto part = [](uint32_t bits) { return double{half_of(bits & 0xffffu)}; };
    return f32_to_f16(static_cast<float>(part(x) * part(y) + part(z)));
  };
  return sum(a, b, c) | static_cast<uint32_t>(sum(a >> 16, b >> 16, c >> 16)) << 16;
}
inline uint32_t limited_pair(uint32_t pair, float most) {
  const auto limited = [&](uint32_t bits) {
    return std::fmin(std::fmax(half_of(bits & 0xffffu), -most), most);
  };
  return packed_halves(limited(pair), limited(pair >> 16));
}
inline uint32_t limited_halves(float low, float high, float most) {
  const auto limited = [&](float x) { return std::fmin(std::fmax(x, -most), most); };
  return packed_halves(limited(low), limited(high));
}
inline uint32_t twice_half(uint32_t pair, uint32_t which) {
  const uint32_t half = pair >> (16 * which) & 0xffffu;
  return half | half << 16;
}
inline float power_of_two(float x) {
  const float y = std::exp2(x);
  return y < 0x1p-126f ? 0.0f : y;  // NaN stays
}
inline float inverse_of(float x) { return 1.0f / x; }
inline int32_t opaque(int32_t x) { return x; }
inline float fused(float a, float b, float c) { return std::fma(a, b, c); }
inline float least_of(float a, float b) { return std::fmin(a, b); }
inline float most_of(float a, float b) { return std::fmax(a, b); }
inline float rounded(float x) { return std::nearbyint(x); }
inline float root_of(float x) { return std::sqrt(x); }
inline uint32_t bits_set(uint32_t x) { return static_cast<uint32_t>(std::popcount(x)); }
/// PTX prmt in its default mode: byte i of the result is the byte of (high, low) that nibble i of
/// `select` names; bit 3 of the nibble asks for its sign in all bits.
inline uint32_t permute(uint32_t low, uint32_t high, uint32_t select) {
  const uint64_t both = low | uint64_t{high} << 32;
  uint32_t all = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t s = select >> (4 * i);
    uint32_t byte = static_cast<uint32_t>(both >> ((s & 7) * 8)) & 255;
    if ((s & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    all |= byte << (8 * i);
  }
  return all;
}
/// Σ of four signed products, added.
inline int32_t dot4(uint32_t a, uint32_t b, int32_t sum) {
  for (uint32_t i = 0; i < 4; ++i) {
    sum += static_cast<int8_t>(a >> (8 * i)) * static_cast<int8_t>(b >> (8 * i));
  }
  return sum;
}

inline int32_t dot4_unsigned(uint32_t a, uint32_t b, int32_t sum) {
  for (uint32_t i = 0; i < 4; ++i) {
    sum += static_cast<int32_t>((a >> (8 * i)) & 255) * static_cast<int8_t>(b >> (8 * i));
  }
  return sum;
}

// ---- async_copy.h
template <typename S, typename T>
void async_copy_16(SharedPtr<S> to, int64_t i, const Global<T>& from, int64_t j) {
  std::byte* const at = to.address(i, static_cast<int64_t>(16 / sizeof(S)));
  if (reinterpret_cast<uintptr_t>(at) % 16 != 0) emu::fault("a misaligned asynchronous copy");
  emu::async_copy(at, from.checked(j, 16, 16), 16);
}
template <typename S, typename T>
void async_copy_constant_16(SharedPtr<S> to, int64_t i, const Global<T>& from, int64_t j) {
  std::byte* const at = to.address(i, static_cast<int64_t>(16 / sizeof(S)));
  const uint64_t address = from.address() + static_cast<uint64_t>(j) * sizeof(T);
  if (reinterpret_cast<uintptr_t>(at) % 16 != 0 || address % 16 != 0) {
    emu::fault("a misaligned asynchronous copy");
  }
  emu::ask_for(address, 16);
  emu::async_copy(at, address, 16);
}
template <typename S, typename T>
void async_copy_8(SharedPtr<S> to, int64_t i, const Global<T>& from, int64_t j) {
  std::byte* const at = to.address(i, static_cast<int64_t>(8 / sizeof(S)));
  if (reinterpret_cast<uintptr_t>(at) % 8 != 0) emu::fault("a misaligned asynchronous copy");
  emu::async_copy(at, from.checked(j, 8, 8), 8);
}
inline void async_commit() { emu::async_commit(); }
template <uint32_t kPending>
void async_wait() {
  emu::async_wait(kPending);
}

// ---- mma.h: the fragments of PTX ISA, "Matrix Fragments for mma.m16n8k32" and those after it.
namespace detail {

inline int32_t byte_at(const uint32_t* words, uint32_t i, bool is_signed) {
  const uint32_t byte = (words[i / 4] >> (i % 4 * 8)) & 255;
  return is_signed ? static_cast<int8_t>(byte) : static_cast<int32_t>(byte);
}

/// m16n8kK of bytes, K = 16 or 32: kWords registers of A to 16 rows and 16 elements of K.
template <uint32_t kK, bool kSignedA>
void mma_bytes(const std::byte* in, std::byte* out) {
  constexpr uint32_t kHalves = kK / 16;
  struct In {
    int32_t c[4];
    uint32_t a[2 * kHalves];
    uint32_t b[kHalves];
  };
  In lanes[32];
  for (uint32_t l = 0; l < 32; ++l) std::memcpy(&lanes[l], in + l * emu::kSlot, sizeof(In));
  int32_t a[16][kK];
  int32_t b[kK][8];
  for (uint32_t l = 0; l < 32; ++l) {
    const uint32_t group = l / 4;
    const uint32_t four = l % 4;
    for (uint32_t i = 0; i < 8 * kHalves; ++i) {
      const uint32_t row = (i / 4) % 2 == 0 ? group : group + 8;
      const uint32_t k = four * 4 + i % 4 + i / 8 * 16;
      a[row][k] = byte_at(lanes[l].a, i, kSignedA);
    }
    for (uint32_t i = 0; i < 4 * kHalves; ++i) {
      b[four * 4 + i % 4 + i / 4 * 16][group] = byte_at(lanes[l].b, i, true);
    }
  }
  for (uint32_t l = 0; l < 32; ++l) {
    int32_t c[4];
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = l / 4 + i / 2 * 8;
      const uint32_t column = l % 4 * 2 + i % 2;
      int64_t sum = lanes[l].c[i];
      for (uint32_t k = 0; k < kK; ++k) sum += a[row][k] * b[k][column];
      c[i] = static_cast<int32_t>(sum);
    }
    std::memcpy(out + l * emu::kSlot, c, sizeof(c));
  }
}

template <bool kBrain>
void mma_halves(const std::byte* in, std::byte* out) {
  struct In {
    float c[4];
    uint32_t a[4];
    uint32_t b[2];
  };
  In lanes[32];
  for (uint32_t l = 0; l < 32; ++l) std::memcpy(&lanes[l], in + l * emu::kSlot, sizeof(In));
  const auto half_at = [](const uint32_t* words, uint32_t i) {
    const auto bits = static_cast<uint16_t>(words[i / 2] >> (i % 2 * 16));
    return kBrain ? bf16_to_f32(bits) : f16_to_f32(bits);
  };
  float a[16][16];
  float b[16][8];
  for (uint32_t l = 0; l < 32; ++l) {
    const uint32_t group = l / 4;
    const uint32_t four = l % 4;
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t row = (i / 2) % 2 == 0 ? group : group + 8;
      a[row][four * 2 + i % 2 + i / 4 * 8] = half_at(lanes[l].a, i);
    }
    for (uint32_t i = 0; i < 4; ++i) {
      b[four * 2 + i % 2 + i / 2 * 8][group] = half_at(lanes[l].b, i);
    }
  }
  for (uint32_t l = 0; l < 32; ++l) {
    float c[4];
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = l / 4 + i / 2 * 8;
      const uint32_t column = l % 4 * 2 + i % 2;
      // The order and rounding of a tensor core's sums are not specified.
      double sum = lanes[l].c[i];
      for (uint32_t k = 0; k < 16; ++k) sum += double{a[row][k]} * double{b[k][column]};
      c[i] = static_cast<float>(sum);
    }
    std::memcpy(out + l * emu::kSlot, c, sizeof(c));
  }
}

template <typename C, size_t kA, size_t kB>
void mma(emu::Collective compute, C (&d)[4], const uint32_t (&a)[kA], const uint32_t (&b)[kB],
         const C (&c)[4], int site) {
  struct In {
    C c[4];
    uint32_t a[kA];
    uint32_t b[kB];
  } in;
  std::memcpy(in.c, c, sizeof(c));
  std::memcpy(in.a, a, sizeof(a));
  std::memcpy(in.b, b, sizeof(b));
  emu::collective(compute, &in, sizeof(in), d, sizeof(d), site);
}

template <bool kTurned>
void matrices(const std::byte* in, std::byte* out) {
  for (uint32_t l = 0; l < 32; ++l) {
    uint32_t v[4];
    for (uint32_t m = 0; m < 4; ++m) {
      uint16_t pair[2];
      for (uint32_t e = 0; e < 2; ++e) {
        const uint32_t row = kTurned ? l % 4 * 2 + e : l / 4;
        const uint32_t element = kTurned ? l / 4 : l % 4 * 2 + e;
        std::memcpy(&pair[e], in + (8 * m + row) * emu::kSlot + element * 2, 2);
      }
      v[m] = pair[0] | static_cast<uint32_t>(pair[1]) << 16;
    }
    std::memcpy(out + l * emu::kSlot, v, sizeof(v));
  }
}

}  // namespace detail

/// Four matrices of 8 rows of 8 halves from shared memory; each lane names a row.
template <typename T>
void load_matrices(uint32_t (&v)[4], SharedPtr<T> from, uint32_t i, int site = __builtin_LINE()) {
  const uint4 row = load_shared<uint4>(from, i);
  emu::collective(&detail::matrices<false>, &row, sizeof(row), v, sizeof(v), site);
}
template <typename T>
void load_turned_matrices(uint32_t (&v)[4], SharedPtr<T> from, uint32_t i,
                          int site = __builtin_LINE()) {
  const uint4 row = load_shared<uint4>(from, i);
  emu::collective(&detail::matrices<true>, &row, sizeof(row), v, sizeof(v), site);
}

/// d = a·b + c; A 16×32 and B 32×8 of signed bytes.
inline void mma_s8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                   const int32_t (&c)[4], int site = __builtin_LINE()) {
  detail::mma(&detail::mma_bytes<32, true>, d, a, b, c, site);
}
/// The same; A of unsigned bytes.
inline void mma_u8(int32_t (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                   const int32_t (&c)[4], int site = __builtin_LINE()) {
  detail::mma(&detail::mma_bytes<32, false>, d, a, b, c, site);
}
/// d = a·b + c; A 16×16 and B 16×8 of signed bytes.
inline void mma_s8(int32_t (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1],
                   const int32_t (&c)[4], int site = __builtin_LINE()) {
  detail::mma(&detail::mma_bytes<16, true>, d, a, b, c, site);
}
inline void mma_u8(int32_t (&d)[4], const uint32_t (&a)[2], const uint32_t (&b)[1],
                   const int32_t (&c)[4], int site = __builtin_LINE()) {
  detail::mma(&detail::mma_bytes<16, false>, d, a, b, c, site);
}
/// d = a·b + c; A 16×16 and B 16×8 of float16, sums of float32.
inline void mma_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                    const float (&c)[4], int site = __builtin_LINE()) {
  detail::mma(&detail::mma_halves<false>, d, a, b, c, site);
}
inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                     const float (&c)[4], int site = __builtin_LINE()) {
  detail::mma(&detail::mma_halves<true>, d, a, b, c, site);
}

}  // namespace infer::cuda

#include "tests/cuda/emulator/bulk_copy.h"
#include "tests/cuda/emulator/warpgroup.h"
