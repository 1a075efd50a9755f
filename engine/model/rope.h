// The host's side of rotary position embedding: angles for every position, in double.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace infer {

/// Where a row is: a place in the text, or for pieces of images one for each of several axes.
struct Position {
  std::array<int32_t, 3> axes;

  Position(int32_t place) : axes{place, place, place} {}  // NOLINT: most rows have one place
  Position(int32_t first, int32_t second, int32_t third) : axes{first, second, third} {}
};

/// One kind of RoPE of a model. Angle of pair i at position p: p · base^(−i/pairs) / factor_i,
/// then scaled by `scaling`. Queries may have a kind of their own, which makes them larger with the
/// position.
struct RopeSpec {
  int32_t pairs = 0;  ///< rotated dimensions / 2
  double base = 10000.0;
  double position_scale = 1.0;  ///< linear scaling: 1 / factor
  double magnitude = 1.0;       ///< multiplies cos and sin
  bool yarn = false;            ///< mixes scaled and unscaled angles by wavelength
  double beta_fast = 32.0;      ///< YaRN: rotations over the original context that stay unscaled
  double beta_slow = 1.0;       ///< YaRN: rotations that are scaled in full
  double extrapolation = 1.0;   ///< YaRN: largest share of the unscaled angle
  double original_context = 0;  ///< tokens the model was first trained with
  bool yarn_rounding = true;    ///< YaRN: bounds of the mix rounded to whole pairs
  int32_t factors = -1;         ///< index of a weight f32 [pairs] that divides the frequencies
  int32_t unused_factors = 0;   ///< that follow those of the pairs in the weight
  int32_t long_factors = -1;    ///< the one used instead for a context beyond the original one
  bool turns = true;            ///< false: every angle is 0
  bool back = false;            ///< turns the other way
  /// A row is turned as the first token of its block is: slots [b·block, (b + 1)·block) of a
  /// sequence are block b.
  int32_t block = 1;
  /// By pair: the axis of Position that turns it, and the exponent of 1/base in place of i/pairs.
  /// Empty: the first axis turns all.
  struct OfPair {
    uint8_t axis = 0;
    double exponent = 0;
  };
  std::vector<OfPair> of_pairs;
  /// cos and sin are multiplied by 1 + temperature·ln(1 + ⌊(position + offset) / length⌋) as well.
  double temperature = 0.0;
  double temperature_length = 1;  ///< tokens
  int32_t temperature_offset = 0;
};

/// The same pairs turned from another base without scaling, as layers with a window have it.
inline RopeSpec unscaled(const RopeSpec& spec, double base) {
  RopeSpec plain;
  plain.pairs = spec.pairs;
  plain.base = base;
  plain.of_pairs = spec.of_pairs;
  return plain;
}

/// True if a model loaded with this context (tokens) uses the factors for long contexts.
inline bool uses_long_factors(const RopeSpec& spec, int64_t context) {
  return spec.long_factors >= 0 && static_cast<double>(context) > spec.original_context;
}

/// The angles of one kind. Everything independent of the position is computed once. Immutable.
class RopeAngles {
 public:
  /// `factors`: the values of the spec's weight, or empty.
  RopeAngles(const RopeSpec& spec, std::span<const float> factors);

  /// Writes (cos, sin) of every pair at `position`. YaRN as in Peng et al. 2023, section 3.2 and
  /// 3.4 (the magnitude is part of the spec).
  void fill(const Position& position, float* cos_sin) const;
  size_t pairs() const { return pairs_.size(); }

 private:
  struct Pair {
    double frequency;  ///< radians a position
    double kept;       ///< share of the unscaled angle; 0 without YaRN
    uint8_t axis;
  };
  std::vector<Pair> pairs_;
  double position_scale_;
  double magnitude_;
  bool yarn_;
  double temperature_;
  double temperature_length_;
  int64_t temperature_offset_;
};

}  // namespace infer
