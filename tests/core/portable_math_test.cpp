// Against the C library's functions of long double: 64 bits of mantissa on x86, 113 on ARM.
#include "engine/core/portable_math.h"

#include <doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

using namespace infer;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Units in the last place between two numbers of the same sign.
double units(double a, double b) {
  if (a == b) return 0;
  return std::fabs(static_cast<double>(std::bit_cast<int64_t>(a) - std::bit_cast<int64_t>(b)));
}

/// The largest error of fn over random numbers from low to high, or over e to the power of these.
template <typename Fn, typename Reference>
double worst(Fn fn, Reference reference, double low, double high, bool powers = false) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> even(low, high);
  double most = 0;
  for (int i = 0; i < 100000; ++i) {
    double x = even(random);
    if (powers) x = std::exp(x);
    const auto wanted = static_cast<double>(reference(static_cast<long double>(x)));
    most = std::max(most, units(fn(x), wanted));
  }
  return most;
}

}  // namespace

TEST_CASE("portable functions are within two units in the last place") {
  const auto exp = [](long double x) { return std::exp(x); };
  CHECK(worst(portable::exp, exp, -1, 1) <= 2);
  CHECK(worst(portable::exp, exp, -745, 709) <= 2);
  CHECK(worst(portable::exp, exp, -746, -708) <= 2);  // subnormal results
  const auto log = [](long double x) { return std::log(x); };
  CHECK(worst(portable::log, log, 0.5, 2) <= 2);
  CHECK(worst(portable::log, log, -740, 700, true) <= 2);
  const auto log1p = [](long double x) { return std::log1p(x); };
  CHECK(worst(portable::log1p, log1p, -0.999, 1) <= 2);
  CHECK(worst(portable::log1p, log1p, -60, 60, true) <= 2);
  CHECK(worst(
            portable::log2, [](long double x) { return std::log2(x); }, -700, 700, true) <= 3);
  CHECK(worst(
            portable::exp2, [](long double x) { return std::exp2(x); }, -1000, 1000) <= 2);
  for (const double most : {1.0, 100.0, 1.5e6}) {
    CHECK(worst([](double x) { return portable::cos_sin(x).cos; },
                [](long double x) { return std::cos(x); }, -most, most) <= 2);
    CHECK(worst([](double x) { return portable::cos_sin(x).sin; },
                [](long double x) { return std::sin(x); }, -most, most) <= 2);
  }
}

TEST_CASE("portable powers have the frequencies of rotary positions") {
  for (const double base : {1e4, 5e5, 1e7}) {
    for (int i = 0; i < 128; ++i) {
      const double wanted =
          static_cast<double>(std::pow(static_cast<long double>(base), -i / 128.0L));
      CHECK(portable::pow(base, -i / 128.0) == doctest::Approx(wanted).epsilon(1e-14));
    }
  }
  CHECK(portable::pow(0, 2) == 0);
  CHECK(portable::pow(0, 0) == 1);
  CHECK(portable::pow(0, -1) == kInfinity);
  CHECK(portable::pow(3, 1) == 3);
}

TEST_CASE("portable functions at the ends of their range") {
  CHECK(portable::exp(0) == 1);
  CHECK(portable::exp(-kInfinity) == 0);
  CHECK(portable::exp(-1e300) == 0);
  CHECK(portable::exp(kInfinity) == kInfinity);
  CHECK(portable::exp(709.9) == kInfinity);
  CHECK(std::isnan(portable::exp(kNone)));
  CHECK(portable::log(0) == -kInfinity);
  CHECK(portable::log(1) == 0);
  CHECK(portable::log(kInfinity) == kInfinity);
  CHECK(std::isnan(portable::log(-1)));
  CHECK(std::isnan(portable::log(kNone)));
  CHECK(portable::log1p(-1) == -kInfinity);
  CHECK(portable::log1p(1e-300) == 1e-300);
  CHECK(portable::log1p(kInfinity) == kInfinity);
  CHECK(std::isnan(portable::log1p(-2)));
  CHECK(portable::exp2(-8) == 1.0 / 256);
  CHECK(portable::exp2(-1074) == std::numeric_limits<double>::denorm_min());
  CHECK(portable::exp2(2000) == kInfinity);
  CHECK(portable::exp2(-2000) == 0);
  CHECK(portable::sigmoid(0) == 0.5);
  CHECK(portable::sigmoid(-kInfinity) == 0);
  CHECK(portable::cos_sin(0).cos == 1);
  CHECK(portable::cos_sin(0).sin == 0);
  CHECK(std::isnan(portable::cos_sin(kInfinity).cos));
  // Far outside of what positions reach.
  for (const double x : {3e6, -1e9, 1e12}) {
    CHECK(std::fabs(portable::cos_sin(x).sin - std::sin(x)) <= 2e-16 * std::fabs(x));
    CHECK(std::fabs(portable::cos_sin(x).cos - std::cos(x)) <= 2e-16 * std::fabs(x));
  }
}
