#include "engine/model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/core/portable_math.h"

namespace infer {
namespace {

/// The pair whose wavelength makes this many rotations over the original context.
double pair_of_rotations(const RopeSpec& spec, double rotations) {
  return spec.pairs * portable::log(spec.original_context / (rotations * 2 * std::numbers::pi)) /
         portable::log(spec.base);
}

}  // namespace

RopeAngles::RopeAngles(const RopeSpec& spec, std::span<const float> factors)
    : position_scale_(spec.position_scale),
      magnitude_(spec.magnitude),
      yarn_(spec.yarn),
      temperature_(spec.temperature),
      temperature_length_(spec.temperature_length),
      temperature_offset_(spec.temperature_offset) {
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
    Pair pair{};
    if (!spec.turns) {
      pairs_.push_back(pair);
      continue;
    }
    double exponent = static_cast<double>(i) / spec.pairs;
    if (!spec.of_pairs.empty()) {
      exponent = spec.of_pairs[static_cast<size_t>(i)].exponent;
      pair.axis = spec.of_pairs[static_cast<size_t>(i)].axis;
    }
    pair.frequency = (spec.back ? -1 : 1) * portable::pow(spec.base, -exponent) /
                     (factors.empty() ? 1.0 : static_cast<double>(factors[i]));
    if (spec.yarn) {
      const double ramp = std::clamp((i - low) / std::max(0.001, high - low), 0.0, 1.0);
      pair.kept = (1 - ramp) * spec.extrapolation;
    }
    pairs_.push_back(pair);
  }
}

void RopeAngles::fill(const Position& position, float* cos_sin) const {
  double magnitude = magnitude_;
  if (temperature_ != 0) {
    const auto far =
        static_cast<double>(position.axes[0] + temperature_offset_) / temperature_length_;
    magnitude *= 1 + temperature_ * portable::log(1 + std::floor(far));
  }
  for (const Pair& pair : pairs_) {
    const double unscaled = static_cast<double>(position.axes[pair.axis]) * pair.frequency;
    double angle = unscaled * position_scale_;
    if (yarn_) angle = angle * (1 - pair.kept) + unscaled * pair.kept;
    const portable::CosSin turn = portable::cos_sin(angle);
    *cos_sin++ = static_cast<float>(turn.cos * magnitude);
    *cos_sin++ = static_cast<float>(turn.sin * magnitude);
  }
}

}  // namespace infer
