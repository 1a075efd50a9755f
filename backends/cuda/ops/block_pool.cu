#include "backends/cuda/ops/block_pool.h"

#include "backends/cuda/device/cache.h"

namespace infer::cuda {

/// A mean by weights of which only the exponents are known, one after the other.
struct RunningMean {
  float best = -3.402823466e38f;  ///< the largest exponent
  float sum = 0;                  ///< of the weights relative to that one
  float mix = 0;                  ///< of the elements times them

  INFER_DEVICE void take(float exponent, float x) {
    const float most = most_of(best, exponent);
    const float keep = exp_of(best - most);
    const float share = exp_of(exponent - most);
    sum = fused(sum, keep, share);
    mix = fused(mix, keep, share * x);
    best = most;
  }
  INFER_DEVICE void load(const Global<float>& from, uint32_t pitch) {
    best = from[0];
    sum = from[pitch];
    mix = from[2 * uint64_t{pitch}];
  }
  INFER_DEVICE void store(const Global<float>& to, uint32_t pitch) const {
    to[0] = best;
    to[pitch] = sum;
    to[2 * uint64_t{pitch}] = mix;
  }
};

/// For the sequences whose number modulo the count of blocks along z is its block's.
INFER_KERNEL(block_pool, BlockPoolParams, kBlockPoolThreads, 1) {
  constexpr uint32_t kNone = 0xffffffffu;
  const uint32_t at = block_x() * kBlockPoolThreads + thread();
  if (at >= p.width) return;
  const bool overlaps = p.overlaps != 0;
  const Global<const float> x(p.x);
  const Global<const float> gate(p.gate);
  const Global<float> y(p.y);
  const Global<const int32_t> sequences(p.sequences);
  const Global<const int32_t> slots(p.slots);
  const Pages pages = pages_of(p.step, p.kind);
  const auto state = [&](uint32_t sequence, uint32_t part) {
    return Global<float>(pages.of(sequence, 0) + p.offset +
                         (uint64_t{3 * part} * p.width + at) * 4);
  };
  const uint32_t rows = step_rows(p.step, gpu::kTokenRows);
  uint32_t held = kNone;  // the sequence of the means
  RunningMean own, next;
  const auto put_back = [&] {
    if (held == kNone) return;
    own.store(state(held, 0), p.width);
    if (overlaps) next.store(state(held, 1), p.width);
  };
  for (uint32_t r = 0; r < rows; ++r) {
    const auto sequence = static_cast<uint32_t>(sequences[r]);
    if (sequence % p.sharing != block_z()) continue;
    const auto slot = static_cast<uint32_t>(slots[r]);
    if (sequence != held) {
      put_back();
      held = sequence;
      if (slot > 0) {
        own.load(state(held, 0), p.width);
        if (overlaps) next.load(state(held, 1), p.width);
      }
    }
    if (slot % p.block == 0) {
      own = overlaps && slot > 0 ? next : RunningMean();
      next = RunningMean();
    }
    const uint64_t row = uint64_t{r} * p.x_stride;
    const uint64_t gate_row = uint64_t{r} * p.gate_stride;
    const uint32_t last = overlaps ? p.width + at : at;
    own.take(gate[gate_row + last], x[row + last]);
    if (overlaps) next.take(gate[gate_row + at], x[row + at]);
    y[uint64_t{r} * p.y_stride + at] = own.mix / own.sum;
  }
  put_back();
}

}  // namespace infer::cuda
