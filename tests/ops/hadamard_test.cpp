// The rotation of keys: what it saves of 4-bit keys with large channels, and that it turns back.
#include <doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cpu/kernels.h"
#include "engine/quant/quant.h"
#include "tests/random_values.h"
#include "tests/support.h"

namespace infer {
namespace {

/// Every `block` elements rotated by the kernel of an instruction set.
std::vector<float> rotated(const cpu::IsaKernels& isa, const std::vector<float>& x, int64_t block) {
  std::vector<float> y(x.size());
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(block)));
  for (size_t i = 0; i < x.size(); i += static_cast<size_t>(block)) {
    isa.vec->attention->hadamard(&y[i], &x[i], scale, block);
  }
  return y;
}

std::vector<float> stored_q4_0(const std::vector<float>& x) {
  const auto n = static_cast<int64_t>(x.size());
  std::vector<std::byte> bytes(static_cast<size_t>(n / 32 * dtype_info(DType::q4_0).block_bytes));
  std::vector<float> y(x.size());
  quant_traits(DType::q4_0).encode(x.data(), bytes.data(), n);
  quant_traits(DType::q4_0).decode(bytes.data(), y.data(), n);
  return y;
}

/// Products of each query with each key, both rows of `dim`.
std::vector<float> scores(const std::vector<float>& q, const std::vector<float>& k, size_t dim) {
  std::vector<float> all;
  for (size_t a = 0; a < q.size(); a += dim) {
    for (size_t b = 0; b < k.size(); b += dim) {
      double sum = 0;
      for (size_t i = 0; i < dim; ++i) sum += static_cast<double>(q[a + i]) * k[b + i];
      all.push_back(static_cast<float>(sum));
    }
  }
  return all;
}

template <typename Fn>
void on_every_isa(Fn check) {
  for (const cpu::IsaKernels& isa : cpu::all_isas()) {
    if (!cpu::isa_runs_here(isa.name)) continue;
    CAPTURE(isa.name);
    check(isa);
  }
}

TEST_CASE("hadamard: twice is nothing, and scores stay what they are") {
  on_every_isa([](const cpu::IsaKernels& isa) {
    for (int64_t block = 1; block <= 1024; block *= 2) {
      CAPTURE(block);
      const std::vector<float> q = test::random_values(3 * 1024, 1);
      const std::vector<float> k = test::random_values(3 * 1024, 2);
      CHECK(test::nmse(rotated(isa, rotated(isa, q, block), block), q) < 1e-12);
      CHECK(test::nmse(scores(rotated(isa, q, block), rotated(isa, k, block), 1024),
                       scores(q, k, 1024)) < 1e-11);
    }
  });
}

TEST_CASE("hadamard: what it makes is nearly normal, of which Q4_0 keeps all but 0.7 %") {
  on_every_isa([](const cpu::IsaKernels& isa) {
    std::vector<float> x = test::random_values(1 << 16, 5);
    for (size_t i = 0; i < x.size(); i += 50) x[i] *= 30.0f;
    const std::vector<float> y = rotated(isa, x, 1024);
    CHECK(test::nmse(stored_q4_0(y), y) < 7.5e-3);
    CHECK(test::nmse(stored_q4_0(x), x) > 1.5e-2);
  });
}

TEST_CASE("hadamard: keys with large channels lose less in Q4_0") {
  constexpr int64_t kKeys = 64;
  on_every_isa([](const cpu::IsaKernels& isa) {
    for (const auto& [dim, block] : {std::pair{64, 64}, {128, 128}, {192, 64}, {576, 64}}) {
      CAPTURE(dim);
      std::vector<float> k = test::random_values(kKeys * dim, 3);
      const std::vector<float> q = test::random_values(kKeys * dim, 4);
      // Of every 32 channels one is twenty times as large, as trained models have them.
      for (size_t i = 5; i < k.size(); i += 32) k[i] *= 20.0f;
      const std::vector<float> exact = scores(q, k, static_cast<size_t>(dim));
      const double plain = test::nmse(scores(q, stored_q4_0(k), static_cast<size_t>(dim)), exact);
      const double turned =
          test::nmse(scores(rotated(isa, q, block), stored_q4_0(rotated(isa, k, block)),
                            static_cast<size_t>(dim)),
                     exact);
      CAPTURE(plain);
      CAPTURE(turned);
      CHECK(turned < 0.5 * plain);
    }
  });
}

}  // namespace
}  // namespace infer
