#include "backends/cuda/ops/causal_conv.h"

#include "backends/cuda/device/cache.h"

namespace infer::cuda {

/// The last inputs of a channel, the earliest first. Those before the first tap are never used.
template <uint32_t kTaps>
struct Before {
  float x[kTaps - 1];

  /// Input j is in the state of its slot, `slot` − (kTaps − 1) + j.
  template <typename Visit>
  INFER_DEVICE void each(const CausalConvParams& p, uint32_t sequence, uint32_t slot,
                         const Visit& visit) {
    const uint32_t kept = (p.taps - 1) * p.dilation;
    const uint32_t channel = block_x() * kConvThreads + thread();
    const Global<float> state(pages_of(p.step, p.kind).of(sequence, 0) + p.offset);
#pragma unroll
    for (uint32_t j = 0; j < kTaps - 1; ++j) {
      const uint32_t ago = kTaps - 1 - j;
      const bool has = ago <= kept && slot >= ago;
      visit(state, has, has ? (slot - ago) % kept * p.channels + channel : 0u, x[j]);
    }
  }
  INFER_DEVICE void load(const CausalConvParams& p, uint32_t sequence, uint32_t slot) {
    each(p, sequence, slot, [](const Global<float>& state, bool has, uint32_t at, float& to) {
      to = has ? state[at] : 0.0f;
    });
  }
  INFER_DEVICE void save(const CausalConvParams& p, uint32_t sequence, uint32_t slot) {
    each(p, sequence, slot, [](const Global<float>& state, bool has, uint32_t at, float& from) {
      if (has) state[at] = from;
    });
  }
};

/// A thread takes a channel through the rows of the step, for the sequences whose number modulo the
/// count of blocks along z is its block's.
template <uint32_t kTaps>
INFER_DEVICE void convolve(const CausalConvParams& p) {
  constexpr uint32_t kAhead = 8;  // rows whose inputs are loaded together
  constexpr uint32_t kNone = 0xffffffffu;
  const uint32_t channel = block_x() * kConvThreads + thread();
  if (channel >= p.channels) return;
  const Global<const float> x(p.x + uint64_t{channel} * 4);
  const Global<float> y(p.y + uint64_t{channel} * 4);
  const Global<const int32_t> sequences(p.sequences);
  const Global<const int32_t> slots(p.slots);
  float weights[kTaps];
#pragma unroll
  for (uint32_t j = 0; j < kTaps; ++j) {
    const uint32_t taps_ago = (kTaps - 1 - j) / p.dilation;
    const bool tap = taps_ago * p.dilation == kTaps - 1 - j && taps_ago < p.taps;
    weights[j] =
        tap ? Global<const float>(p.w)[uint64_t{channel} * p.taps + (p.taps - 1 - taps_ago)] : 0.0f;
  }
  const float base = p.bias != 0 ? Global<const float>(p.bias)[channel] : 0.0f;
  const uint32_t rows = step_rows(p.step, gpu::kTokenRows);
  Before<kTaps> before{};
  uint32_t held = kNone;  // the sequence of `before`
  uint32_t slot = 0;      // the next one of it
  for (uint32_t first = 0; first < rows; first += kAhead) {
    uint32_t of[kAhead];
    float values[kAhead];
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      of[i] = first + i < rows ? static_cast<uint32_t>(sequences[first + i]) : kNone;
      if (of[i] != kNone && of[i] % p.sharing != block_z()) of[i] = kNone;
    }
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      values[i] = of[i] != kNone ? x[uint64_t{first + i} * p.x_stride] : 0.0f;
    }
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      if (of[i] == kNone) continue;
      const auto now = static_cast<uint32_t>(slots[first + i]);
      if (of[i] != held) {
        if (held != kNone) before.save(p, held, slot);
        held = of[i];
        before.load(p, held, now);
      }
      slot = now + 1;
      float sum = base;
#pragma unroll
      for (uint32_t j = 0; j < kTaps - 1; ++j) sum = fused(weights[j], before.x[j], sum);
      sum = fused(weights[kTaps - 1], values[i], sum);
      y[uint64_t{first + i} * p.y_stride] = p.silu != 0 ? sum * sigmoid_of(sum) : sum;
#pragma unroll
      for (uint32_t j = 0; j + 2 < kTaps; ++j) before.x[j] = before.x[j + 1];
      before.x[kTaps - 2] = values[i];
    }
  }
  if (held != kNone) before.save(p, held, slot);
}

INFER_KERNEL(causal_conv_4, CausalConvParams, kConvThreads, 16) { convolve<4>(p); }
INFER_KERNEL(causal_conv_16, CausalConvParams, kConvThreads, 1) { convolve<16>(p); }

}  // namespace infer::cuda
