// The emulator's products by warpgroups: what they compute, and that what is wrong is found.
#include <doctest.h>

#include <random>
#include <string>
#include <vector>

#include "engine/core/half.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/warpgroup_faults.h"

namespace infer::cuda {
namespace {

/// A 64×16 and B 16×16 of whole numbers.
struct Numbers {
  std::vector<int> a = std::vector<int>(64 * 16);
  std::vector<int> b = std::vector<int>(16 * 16);  ///< by column
  Numbers() {
    std::mt19937 random(5);
    for (int& x : a) x = static_cast<int>(random() % 64) - 32;
    for (int& x : b) x = static_cast<int>(random() % 64) - 32;
  }
};

/// Returns the fault.
std::string run(const Numbers& of, WrongProduct wrong, uint64_t seed, std::vector<float>& d) {
  const auto half = [](int x) { return uint32_t{f32_to_f16(static_cast<float>(x))}; };
  std::vector<uint32_t> a(128 * 4);
  for (uint32_t t = 0; t < 128; ++t) {
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t row = t / 32 * 16 + t % 32 / 4 + ((i & 2) != 0 ? 8 : 0);
      const uint32_t k = (t & 3) * 2 + (i & 1) + (i >= 4 ? 8 : 0);
      a[t * 4 + i / 2] |= half(of.a[row * 16 + k]) << 16 * (i & 1);
    }
  }
  struct alignas(16) Eight {
    uint16_t halves[8];
  };
  std::vector<Eight> b(32);
  for (uint32_t column = 0; column < 16; ++column) {
    for (uint32_t k = 0; k < 16; ++k) {
      b[k / 8 * 16 + column].halves[k % 8] = static_cast<uint16_t>(half(of.b[column * 16 + k]));
    }
  }
  d.assign(size_t{128} * 8, -1.0f);
  emulator::Memory memory;
  const auto at = [&](const auto& v) {
    memory.add(v.data(), v.size() * sizeof(v[0]));
    return uint64_t{reinterpret_cast<uintptr_t>(v.data())};
  };
  const WarpgroupParams params{at(a), at(b), at(d), wrong, 0};
  return emulator::launch(*emulator::find_kernel("product_64_16"), {.threads = 128, .seed = seed},
                          memory, &params);
}

TEST_CASE("a product by a warpgroup is a plain product") {
  const Numbers numbers;
  std::vector<float> d;
  REQUIRE(run(numbers, WrongProduct::nothing, 1, d) == "");
  for (uint32_t t = 0; t < 128; ++t) {
    for (uint32_t i = 0; i < 8; ++i) {
      const uint32_t row = t / 32 * 16 + t % 32 / 4 + ((i & 2) != 0 ? 8 : 0);
      const uint32_t column = i / 4 * 8 + (t & 3) * 2 + (i & 1);
      int sum = 0;
      for (uint32_t k = 0; k < 16; ++k) sum += numbers.a[row * 16 + k] * numbers.b[column * 16 + k];
      CHECK(d[t * 8 + i] == static_cast<float>(2 * sum));
    }
  }
}

TEST_CASE("wrong products by a warpgroup are found") {
  const Numbers numbers;
  std::vector<float> d;
  const auto finds = [&](WrongProduct wrong, const char* what) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const std::string fault = run(numbers, wrong, seed, d);
      INFO(fault);
      CHECK(fault.find(what) != std::string::npos);
    }
    CHECK(run(numbers, WrongProduct::nothing, 1, d) == "");
  };
  finds(WrongProduct::not_shown, "not been shown");
  finds(WrongProduct::not_fenced, "no warpgroup_fence()");
  finds(WrongProduct::not_waited, "products run when the thread ends");
  finds(WrongProduct::sums_changed, "the sums of a product under way");
  finds(WrongProduct::registers_changed, "the registers of a product under way");
  finds(WrongProduct::matrix_changed, "shared byte");
  finds(WrongProduct::other_matrix, "nobody has written");
}

std::string copied(WrongCopy wrong, uint64_t seed, std::vector<float>& y) {
  alignas(16) float x[128];
  for (uint32_t i = 0; i < 128; ++i) x[i] = static_cast<float>(i * i);
  y.assign(128, -1.0f);
  emulator::Memory memory;
  memory.add(x, sizeof(x));
  memory.add(y.data(), y.size() * sizeof(float));
  const BulkParams params{reinterpret_cast<uintptr_t>(x), reinterpret_cast<uintptr_t>(y.data()),
                          wrong, 0};
  return emulator::launch(*emulator::find_kernel("bulk_rotate"), {.threads = 128, .seed = seed},
                          memory, &params);
}

TEST_CASE("copies of many bytes are there for who has waited for them") {
  std::vector<float> y;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    CHECK(copied(WrongCopy::nothing, seed, y) == "");
    for (uint32_t t = 0; t < 128; ++t) {
      const uint32_t from = (t + 33) % 128;
      CHECK(y[t] == static_cast<float>(from * from));
    }
    CHECK(copied(WrongCopy::not_waited, seed, y) != "");
    CHECK(copied(WrongCopy::not_expected, seed, y).find("do not come") != std::string::npos);
    CHECK(copied(WrongCopy::too_few_expected, seed, y).find("more bytes") != std::string::npos);
    CHECK(copied(WrongCopy::no_barrier, seed, y).find("nobody has written") != std::string::npos);
  }
}

}  // namespace
}  // namespace infer::cuda
