// Kernels leave the upper halves of vector registers unused. In use, they make code without AVX
// hundreds of cycles slower on Intel's processors, which no test of results would show.
#include <doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/kernels.h"
#include "engine/core/dtype.h"
#include "tests/ops/packed_rows.h"
#include "tests/random_values.h"

#ifdef __x86_64__
#include <cpuid.h>

namespace infer::cpu {
namespace {

constexpr uint32_t kUpperHalves = 1u << 2 | 1u << 6;  // of ymm, and of zmm0 to zmm15

/// The parts of the registers' state that are in use.
uint32_t in_use() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return low;
}

/// Whether the processor says what is in use.
bool is_told() {
  uint32_t a, b, c, d;
  if (__get_cpuid_count(0xd, 1, &a, &b, &c, &d) == 0 || (a & 4) == 0) return false;
  asm volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0" ::: "xmm0");
  const bool used = (in_use() & kUpperHalves) != 0;
  asm volatile("vzeroupper" ::: "memory");
  return used && (in_use() & kUpperHalves) == 0;
}

TEST_CASE("kernels leave the upper halves of vector registers unused") {
  if (!isa_runs_here("avx2") || !is_told()) {
    MESSAGE("SKIPPED: the processor does not say which registers are in use");
    return;
  }
  constexpr int64_t kN = 512;
  std::vector<float> x = test::random_values(kN, 1);
  std::vector<float> y(kN);
  std::vector<uint16_t> halves(kN);
  std::vector<std::byte> bytes(static_cast<size_t>(Panel::bytes(9, kN)));
  const op::Glu glu{};
  for (const IsaKernels& isa : all_isas()) {
    if (!isa_runs_here(isa.name)) continue;
    CAPTURE(std::string(isa.name));
    const VecOps& vec = *isa.vec;
    const AttentionOps& attention = *vec.attention;
    const std::pair<const char*, std::function<void()>> calls[] = {
        {"sum_squares", [&] { vec.sum_squares(x.data(), kN); }},
        {"scale_mul", [&] { vec.scale_mul(y.data(), x.data(), nullptr, 0.5f, kN); }},
        {"scale_mul by weights", [&] { vec.scale_mul(y.data(), x.data(), x.data(), 0.5f, kN); }},
        {"add_scaled", [&] { vec.add_scaled(y.data(), x.data(), x.data(), 0.5f, kN); }},
        {"axpy", [&] { vec.axpy(y.data(), 0.5f, x.data(), kN); }},
        {"max", [&] { vec.max(x.data(), kN); }},
        {"exp_sum", [&] { vec.exp_sum(y.data(), 1.0f, kN); }},
        {"softcap", [&] { vec.softcap(y.data(), x.data(), 2.0f, kN); }},
        {"glu", [&] { vec.glu(y.data(), x.data(), x.data(), glu, kN); }},
        {"gelu", [&] { vec.gelu(y.data(), x.data(), op::Gelu::Kind::exact, kN); }},
        {"f32_to_f16", [&] { vec.f32_to_f16(halves.data(), x.data(), kN); }},
        {"f16_to_f32", [&] { vec.f16_to_f32(y.data(), halves.data(), kN); }},
        {"quantise",
         [&] {
           vec.quantise(x.data(), kN, Panel{bytes.data(), 1}, 0);
         }},
        {"rope", [&] { attention.rope(y.data(), x.data(), x.data(), kN / 2, false); }},
        {"hadamard", [&] { attention.hadamard(y.data(), x.data(), 0.1f, kN); }},
    };
    for (const auto& [name, call] : calls) {
      call();
      const uint32_t left = in_use() & kUpperHalves;
      CHECK_MESSAGE(left == 0, name);
    }
    for (const RowKernel* kernel : isa.rows) {
      CAPTURE(dtype_info(kernel->weights).name);
      const std::vector<std::byte> weights = packed_rows(*kernel, 1, kN);
      for (const int64_t columns : {1, 3, 9}) {
        CAPTURE(columns);
        const Panel panel{bytes.data(), columns};
        for (int64_t c = 0; c < columns; ++c) vec.quantise(x.data(), kN, panel, c);
        std::vector<float> sums(static_cast<size_t>(columns * kernel->rows));
        kernel->run(weights.data(), 1, kN, panel, 1, sums.data());
        const uint32_t left = in_use() & kUpperHalves;
        CHECK(left == 0);
      }
    }
  }
}

}  // namespace
}  // namespace infer::cpu

#endif
