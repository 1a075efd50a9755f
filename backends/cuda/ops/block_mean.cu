#include "backends/cuda/ops/block_mean.h"

#include "backends/cuda/device/cache.h"

namespace infer::cuda {

/// For the sequences whose number modulo the count of blocks along z is its block's.
INFER_KERNEL(block_mean, BlockMeanParams, kBlockMeanThreads, 1) {
  constexpr uint32_t kAhead = 8;  // rows whose elements are loaded together
  constexpr uint32_t kNone = 0xffffffffu;
  const uint32_t at = block_x() * kBlockMeanThreads + thread();
  if (at >= p.width) return;
  const Global<const float> x(p.x + uint64_t{at} * 4);
  const Global<float> y(p.y + uint64_t{at} * 4);
  const Global<const int32_t> sequences(p.sequences);
  const Global<const int32_t> slots(p.slots);
  const Pages pages = pages_of(p.step, p.kind);
  const auto state = [&](uint32_t sequence) {
    return Global<float>(pages.of(sequence, 0) + p.offset + uint64_t{at} * 4);
  };
  const uint32_t rows = step_rows(p.step, gpu::kTokenRows);
  uint32_t held = kNone;  // the sequence of `sum`
  float sum = 0;
  for (uint32_t first = 0; first < rows; first += kAhead) {
    uint32_t of[kAhead];
    float values[kAhead];
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      of[i] = first + i < rows ? static_cast<uint32_t>(sequences[first + i]) : kNone;
      if (of[i] != kNone && of[i] % p.sharing != block_z()) of[i] = kNone;
      values[i] = of[i] != kNone ? x[uint64_t{first + i} * p.x_stride] : 0.0f;
    }
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      if (of[i] == kNone) continue;
      const uint32_t place = static_cast<uint32_t>(slots[first + i]) % p.block;
      if (of[i] != held) {
        if (held != kNone) state(held)[0] = sum;
        held = of[i];
        sum = place == 0 ? 0.0f : state(held)[0];
      }
      sum = (place == 0 ? 0.0f : sum) + values[i];
      y[uint64_t{first + i} * p.y_stride] = sum / static_cast<float>(place + 1);
    }
  }
  if (held != kNone) state(held)[0] = sum;
}

}  // namespace infer::cuda
