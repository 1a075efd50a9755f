// The emulator's own tests: what it computes, and that it finds what is wrong.
#include "tests/cuda/emulator/emulator.h"

#include <doctest.h>

#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "engine/core/half.h"
#include "tests/cuda/emulator/faults.h"

namespace infer::cuda {
namespace {

struct Run {
  std::string fault;
  std::vector<float> y;
};

Run run(const char* name, uint32_t threads, Wrong wrong, uint64_t seed, uint32_t blocks = 1,
        int workers = 1) {
  std::vector<float> x(256);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i % 101);
  Run made;
  made.y.assign(threads, 0.0f);
  emulator::Memory memory;
  memory.add(x.data(), x.size() * sizeof(float));
  memory.add(made.y.data(), made.y.size() * sizeof(float));
  const FaultParams params{reinterpret_cast<uintptr_t>(x.data()),
                           reinterpret_cast<uintptr_t>(made.y.data()), wrong, 0};
  const emulator::Kernel* kernel = emulator::find_kernel(name);
  REQUIRE(kernel != nullptr);
  REQUIRE(kernel->param_bytes == sizeof(params));
  made.fault = emulator::launch(
      *kernel, {.grid = {blocks, 1, 1}, .threads = threads, .seed = seed, .workers = workers},
      memory, &params);
  return made;
}

float value(uint32_t i) { return static_cast<float>(i * i % 101); }

constexpr uint64_t kSeeds = 8;

void finds(const char* name, uint32_t threads, Wrong wrong, const char* what) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Run made = run(name, threads, wrong, seed);
    INFO(made.fault);
    CHECK(made.fault.find(what) != std::string::npos);
    CHECK(made.fault.find(name) != std::string::npos);
  }
  // The worker is as good as new afterwards.
  CHECK(run(name, threads, kNothing, 1).fault.empty());
}

TEST_CASE("a kernel gives the same under every order of its threads") {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Run made = run("rotate", 128, kNothing, seed);
    CHECK(made.fault == "");
    for (uint32_t t = 0; t < 128; ++t) CHECK(made.y[t] == value((t + 33) % 128));
    const Run warps = run("rotate_warp", 64, kNothing, seed);
    CHECK(warps.fault == "");
    for (uint32_t t = 0; t < 64; ++t) CHECK(warps.y[t] == value(t / 32 * 32 + (t + 1) % 32));
    const Run named = run("halves", 128, kNothing, seed);
    CHECK(named.fault == "");
    for (uint32_t t = 0; t < 128; ++t) CHECK(named.y[t] == value(t / 64 * 64 + (t + 40) % 64));
    const Run copied = run("copies", 32, kNothing, seed);
    CHECK(copied.fault == "");
    for (uint32_t t = 0; t < 32; ++t) {
      CHECK(copied.y[t] == value((4 * t + 40) % 128) + value(128 + (4 * t + 40) % 128));
    }
  }
}

TEST_CASE("shuffles and votes") {
  const Run made = run("warp_sums", 64, kNothing, 3);
  CHECK(made.fault == "");
  for (uint32_t t = 0; t < 64; ++t) {
    float expected = value(t / 32 * 32 + 3);
    for (uint32_t l = 0; l < 32; ++l) {
      const float x = value(t / 32 * 32 + l);
      expected += x + (static_cast<int>(x) % 2 != 0 ? 1.0f : 0.0f);
    }
    CHECK(made.y[t] == expected);
  }
}

TEST_CASE("blocks on several OS threads") {
  const Run made = run("count", 64, kNothing, 5, 100, 4);
  CHECK(made.fault == "");
  uint32_t count = 0;
  std::memcpy(&count, made.y.data(), sizeof(count));
  CHECK(count == 100 * 32);
}

TEST_CASE("a missing barrier is found") {
  finds("rotate", 128, kNoBarrier, "");
  // By whichever comes first: the other thread has not written, or it has without a barrier.
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const std::string fault = run("rotate", 128, kNoBarrier, seed).fault;
    const bool named = fault.find("race") != std::string::npos ||
                       fault.find("nobody has written") != std::string::npos;
    CHECK(named);
  }
  finds("rotate_warp", 64, kNoWarpBarrier, "");
  finds("halves", 128, kNoBarrier, "");
}

TEST_CASE("wrong accesses are found") {
  finds("rotate", 128, kSharedIndex, "element 128 of a shared array of 128");
  finds("rotate", 128, kGlobalIndex, "outside of every allocation");
  finds("rotate", 128, kUnwritten, "nobody has written");
}

TEST_CASE("divergence is found") {
  finds("rotate", 128, kDivergentBarrier, "");
  finds("warp_sums", 64, kDivergentShuffle, "divergence");
}

TEST_CASE("asynchronous copies are not there before the wait and the barrier") {
  finds("copies", 32, kNoWait, "asynchronous copy");
  finds("copies", 32, kNoBarrierAfterWait, "");
}

TEST_CASE("a kernel reads nothing before it waits for the one before it") {
  const Run made = run("doubles", 64, kNothing, 0);
  CHECK(made.fault == "");
  for (uint32_t t = 0; t < 64; ++t) CHECK(made.y[t] == 2 * value(t));
  finds("doubles", 64, kEarlyRead, "before the kernel waits");
  finds("doubles", 64, kEarlyAsk, "asked for 4 bytes outside of every allocation");
}

TEST_CASE("a launch within the kernel's bounds only") {
  CHECK(run("rotate", 160, kNothing, 0).fault.find("at most 128") != std::string::npos);
}

/// Runs a kernel of one mma.
template <typename C>
std::vector<C> multiplied(const char* name, const std::vector<uint32_t>& a,
                          const std::vector<uint32_t>& b, const std::vector<C>& c) {
  std::vector<C> d(128);
  emulator::Memory memory;
  memory.add(a.data(), a.size() * 4);
  memory.add(b.data(), b.size() * 4);
  memory.add(c.data(), c.size() * 4);
  memory.add(d.data(), d.size() * 4);
  const auto at = [](const auto& v) { return uint64_t{reinterpret_cast<uintptr_t>(v.data())}; };
  const MmaParams params{at(a), at(b), at(c), at(d)};
  CHECK(emulator::launch(*emulator::find_kernel(name), {.threads = 32}, memory, &params) == "");
  return d;
}

// The fragments as the PTX manual's figures draw them, written down apart from the emulator.
TEST_CASE("mma of bytes is a plain product") {
  std::mt19937 random(7);
  for (const uint32_t depth : {16u, 32u}) {
    const bool is_signed = depth == 32;
    std::vector<int> a(16 * depth);
    std::vector<int> b(depth * 8);
    for (int& x : a) x = static_cast<int>(random() % 256) - (is_signed ? 128 : 0);
    for (int& x : b) x = static_cast<int>(random() % 256) - 128;
    const uint32_t words_a = depth / 8;
    const uint32_t words_b = depth / 16;
    std::vector<uint32_t> fragments_a(32 * words_a, 0);
    std::vector<uint32_t> fragments_b(32 * words_b, 0);
    std::vector<int32_t> c(128);
    for (int32_t& x : c) x = static_cast<int32_t>(random() % 1000);
    for (uint32_t l = 0; l < 32; ++l) {
      const uint32_t group = l >> 2;
      const uint32_t in_group = l & 3;
      for (uint32_t w = 0; w < words_a; ++w) {
        const uint32_t row = (w & 1) != 0 ? group + 8 : group;
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t k = in_group * 4 + i + (w >= 2 ? 16 : 0);
          fragments_a[l * words_a + w] |= static_cast<uint32_t>(a[row * depth + k] & 255) << 8 * i;
        }
      }
      for (uint32_t w = 0; w < words_b; ++w) {
        for (uint32_t i = 0; i < 4; ++i) {
          const uint32_t k = in_group * 4 + i + 16 * w;
          fragments_b[l * words_b + w] |= static_cast<uint32_t>(b[k * 8 + group] & 255) << 8 * i;
        }
      }
    }
    const std::vector<int32_t> d =
        multiplied(is_signed ? "mma_32" : "mma_16", fragments_a, fragments_b, c);
    for (uint32_t l = 0; l < 32; ++l) {
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t row = (l >> 2) + (i >= 2 ? 8 : 0);
        const uint32_t column = (l & 3) * 2 + (i & 1);
        int32_t sum = c[l * 4 + i];
        for (uint32_t k = 0; k < depth; ++k) sum += a[row * depth + k] * b[k * 8 + column];
        CHECK(d[l * 4 + i] == sum);
      }
    }
  }
}

TEST_CASE("mma of float16 is a plain product") {
  std::mt19937 random(9);
  std::vector<int> a(16 * 16);
  std::vector<int> b(16 * 8);
  for (int& x : a) x = static_cast<int>(random() % 64) - 32;
  for (int& x : b) x = static_cast<int>(random() % 64) - 32;
  std::vector<uint32_t> fragments_a(128, 0);
  std::vector<uint32_t> fragments_b(64, 0);
  const auto half = [](int x) { return uint32_t{f32_to_f16(static_cast<float>(x))}; };
  for (uint32_t l = 0; l < 32; ++l) {
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t row = (l >> 2) + ((i & 2) != 0 ? 8 : 0);
      const uint32_t k = (l & 3) * 2 + (i & 1) + (i >= 4 ? 8 : 0);
      fragments_a[l * 4 + i / 2] |= half(a[row * 16 + k]) << 16 * (i & 1);
    }
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t k = (l & 3) * 2 + (i & 1) + (i >= 2 ? 8 : 0);
      fragments_b[l * 2 + i / 2] |= half(b[k * 8 + (l >> 2)]) << 16 * (i & 1);
    }
  }
  const std::vector<float> c(128, 0.5f);
  const std::vector<float> d = multiplied("mma_half", fragments_a, fragments_b, c);
  for (uint32_t l = 0; l < 32; ++l) {
    for (uint32_t i = 0; i < 4; ++i) {
      int sum = 0;
      for (uint32_t k = 0; k < 16; ++k) {
        sum += a[((l >> 2) + (i >= 2 ? 8 : 0)) * 16 + k] * b[k * 8 + (l & 3) * 2 + (i & 1)];
      }
      CHECK(d[l * 4 + i] == static_cast<float>(sum) + 0.5f);
    }
  }
}

TEST_CASE("matrices of halves are loaded as they are, and turned") {
  std::vector<uint32_t> rows(128);
  // Of matrix m, row r, element e: the number 64m + 8r + e.
  for (uint32_t i = 0; i < 128; ++i) rows[i] = 2 * i | (2 * i + 1) << 16;
  std::vector<uint32_t> found(256);
  emulator::Memory memory;
  memory.add(rows.data(), rows.size() * 4);
  memory.add(found.data(), found.size() * 4);
  const MmaParams params{reinterpret_cast<uintptr_t>(rows.data()), 0, 0,
                         reinterpret_cast<uintptr_t>(found.data())};
  REQUIRE(emulator::launch(*emulator::find_kernel("matrices"), {.threads = 32}, memory, &params) ==
          "");
  for (uint32_t l = 0; l < 32; ++l) {
    const uint32_t group = l >> 2;
    const uint32_t pair = (l & 3) * 2;
    for (uint32_t m = 0; m < 4; ++m) {
      CHECK((found[l * 4 + m] & 0xffff) == 64 * m + 8 * group + pair);
      CHECK((found[l * 4 + m] >> 16) == 64 * m + 8 * group + pair + 1);
      CHECK((found[128 + l * 4 + m] & 0xffff) == 64 * m + 8 * pair + group);
      CHECK((found[128 + l * 4 + m] >> 16) == 64 * m + 8 * (pair + 1) + group);
    }
  }
}

}  // namespace
}  // namespace infer::cuda
