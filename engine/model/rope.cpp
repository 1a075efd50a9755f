#include "engine/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace infer {
namespace {

/// The pair whose wavelength makes this many rotations over the original context.
double pair_of_rotations(const RopeSpec& spec, double rotations) {
  return spec.pairs * std::log(spec.original_context / (rotations * 2 * std::numbers::pi)) /
         std::log(spec.base);
}

}  // namespace

void rope_angles(const RopeSpec& spec, std::span<const float> factors, int64_t position,
                 float* cos_sin) {
  double low = 0;
  double high = 0;
  if (spec.yarn) {
    low = pair_of_rotations(spec, spec.beta_fast);
    high = pair_of_rotations(spec, spec.beta_slow);
    if (spec.yarn_rounding) {
      low = std::floor(low);
      high = std::ceil(high);
    }
    low = std::max(0.0, low);
    high = std::min(2.0 * spec.pairs - 1, high);
  }
  for (int32_t i = 0; i < spec.pairs; ++i) {
    const double frequency = std::pow(spec.base, -static_cast<double>(i) / spec.pairs) /
                             (factors.empty() ? 1.0 : static_cast<double>(factors[i]));
    const double unscaled = static_cast<double>(position) * frequency;
    double angle = unscaled * spec.position_scale;
    if (spec.yarn) {
      const double ramp = std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
      const double kept = (1 - ramp) * spec.extrapolation;
      angle = angle * (1 - kept) + unscaled * kept;
    }
    cos_sin[2 * i] = static_cast<float>(std::cos(angle) * spec.magnitude);
    cos_sin[2 * i + 1] = static_cast<float>(std::sin(angle) * spec.magnitude);
  }
}

}  // namespace infer
