// RoPE tables bit by bit against the formula worked out afresh for every angle.
#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "engine/model/rope.h"

namespace infer {
namespace {

/// (cos, sin) of pair i: Su et al. 2021; YaRN as in Peng et al. 2023, section 3.2.
std::pair<float, float> angle_of(const RopeSpec& s, const std::vector<float>& factors, int32_t i,
                                 int64_t position) {
  const double unscaled = static_cast<double>(position) *
                          (std::pow(s.base, -static_cast<double>(i) / s.pairs) /
                           (factors.empty() ? 1.0 : double{factors[static_cast<size_t>(i)]}));
  double angle = unscaled * s.position_scale;
  if (s.yarn) {
    const auto pair_of = [&](double rotations) {
      return s.pairs * std::log(s.original_context / (rotations * 2 * std::numbers::pi)) /
             std::log(s.base);
    };
    double low = pair_of(s.beta_fast);
    double high = pair_of(s.beta_slow);
    if (s.yarn_rounding) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(0.0, low);
    high = std::min(2.0 * s.pairs - 1, high);
    const double ramp = std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
    const double kept = (1 - ramp) * s.extrapolation;
    angle = angle * (1 - kept) + unscaled * kept;
  }
  return {static_cast<float>(std::cos(angle) * s.magnitude),
          static_cast<float>(std::sin(angle) * s.magnitude)};
}

void check(const RopeSpec& spec, const std::vector<float>& factors = {}) {
  const RopeAngles angles(spec, factors);
  REQUIRE(angles.pairs() == static_cast<size_t>(spec.pairs));
  std::vector<float> row(2 * angles.pairs());
  for (const int64_t position : {0, 1, 2, 63, 64, 1000, 4097, 131071}) {
    angles.fill(position, row.data());
    for (int32_t i = 0; i < spec.pairs; ++i) {
      const auto [cosine, sine] = angle_of(spec, factors, i, position);
      CHECK(row[2 * static_cast<size_t>(i)] == cosine);
      CHECK(row[2 * static_cast<size_t>(i) + 1] == sine);
    }
  }
}

TEST_CASE("tables are those of the formula to the last bit") {
  check({.pairs = 32});
  check({.pairs = 24, .base = 5e5, .position_scale = 0.125, .magnitude = 1.19});
  std::vector<float> factors(64, 1.0f);
  for (size_t i = 1; i < factors.size(); ++i) factors[i] = factors[i - 1] + 0.37f;
  check({.pairs = 64, .base = 1e6}, factors);
  RopeSpec yarn{.pairs = 32, .base = 150000, .position_scale = 1 / 32.0, .magnitude = 1.35};
  yarn.yarn = true;
  yarn.original_context = 4096;
  check(yarn);
  yarn.yarn_rounding = false;
  yarn.extrapolation = 0.5;
  check(yarn);
}

}  // namespace
}  // namespace infer
