// What matters of a large vocabulary's logits, found in one pass: the largest of every block of
// them, so that what follows need not look at blocks without anything likely.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace infer {

struct Candidate {
  int32_t id;
  float logit;
};

/// e^x for x ≤ 0 within a relative error of 1e-6; below −87, and of what is not a number, e^−87.
/// F is float or a vector of floats, Bits unsigned numbers of the same sizes. 2^n·e^r with
/// |r| ≤ ln2/2, where n comes from adding 1.5·2^23, which leaves it in the lowest bits.
template <typename F = float, typename Bits = uint32_t>
F exp_roughly(F x) {
  const F lowest = F{} - 87.0f;
  const F clamped = x > lowest ? x : lowest;
  constexpr float kRound = 12582912.0f;
  const F shifted = clamped * 1.44269504088896341f + kRound;
  const F n = shifted - kRound;
  const F r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
  // The Taylor series of e^r: its first missing term is below 2e-7.
  F p = r * (1 / 720.0f) + 1 / 120.0f;
  p = p * r + 1 / 24.0f;
  p = p * r + 1 / 6.0f;
  p = p * r + 1 / 2.0f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * std::bit_cast<F>((std::bit_cast<Bits>(shifted) + 127) << 23);
}

/// A view of a step's logits; they outlive its use.
class LogitBlocks {
 public:
  void scan(std::span<const float> logits);

  /// The largest; −∞ where none is a number.
  float best() const { return best_; }
  /// The first of the largest, −1 if that is −∞.
  int32_t first_best() const;
  /// Replaces `to` with those of at least `least`, in order of ids.
  void gather(float least, std::vector<Candidate>& to) const;
  /// Σ exp(x − best) over all, within a relative error of kMassError. The best is finite.
  double mass() const;
  static constexpr double kMassError = 2e-5;

 private:
  static constexpr size_t kBlock = 256;

  std::span<const float> block(size_t i) const {
    return logits_.subspan(i * kBlock, std::min(kBlock, logits_.size() - i * kBlock));
  }

  std::span<const float> logits_;
  std::vector<float> largest_;  ///< by block
  float best_ = 0;
};

}  // namespace infer
