// The fused multiply-add of plain code, for processors that have none.
#include <doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

// Of all that it defines one function is used here.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "backends/cpu/simd/scalar/isa.h"

using namespace infer::cpu;

namespace {

void expect_fused(float a, float b, float c) {
  float got[F::kWidth];
  fma(F::set(a), F::set(b), F::set(c)).store(got);
  const float wanted = std::fma(a, b, c);
  CAPTURE(a);
  CAPTURE(b);
  CAPTURE(c);
  if (std::isnan(wanted)) {
    CHECK(std::isnan(got[0]));
  } else {
    CHECK(std::memcmp(&got[0], &wanted, sizeof(wanted)) == 0);
  }
}

}  // namespace

TEST_CASE("plain code rounds a product and a sum once") {
  std::mt19937 random(3);
  std::uniform_int_distribution<int> any(0, 4095);
  std::uniform_int_distribution<int> exponent(-140, 100);
  for (int i = 0; i < 20000; ++i) {
    // Half of these products lie between two floats. A small addend decides where to.
    const float a = 1 + static_cast<float>(any(random)) / 4096;
    const float b = 1 + static_cast<float>(any(random)) / 4096;
    const float sign = any(random) % 2 == 0 ? 1.0f : -1.0f;
    expect_fused(sign * a, b, std::ldexp(1.0f, -60 - i % 60));
    expect_fused(sign * a, b, std::ldexp(-1.0f, -60 - i % 60));
    // Subnormal results, and sums that cancel.
    expect_fused(std::ldexp(a, -70), std::ldexp(b, -70), std::ldexp(sign, exponent(random)));
    expect_fused(a, b, -a * b);
    expect_fused(std::ldexp(a, exponent(random)), sign * b, std::ldexp(b, exponent(random)));
  }
  const float infinity = std::numeric_limits<float>::infinity();
  const float most = std::numeric_limits<float>::max();
  for (const float x : {infinity, -infinity, std::nanf(""), most, -most, 0.0f, -0.0f, 1e-45f}) {
    for (const float y : {infinity, most, 0.0f, -1.0f}) {
      for (const float z : {-infinity, most, -most, 0.0f, -0.0f}) expect_fused(x, y, z);
    }
  }
}
