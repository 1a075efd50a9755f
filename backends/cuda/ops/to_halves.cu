// A number becomes the sum of two of 16 bits, which have 22 bits together (float16) or 16
// (bfloat16). Float16: a column is multiplied by a power of two, so that its largest element is in
// [2^13, 2^14) (device/halves.h). Bfloat16 has the range of float32.
#include "backends/cuda/ops/to_halves.h"

#include "backends/cuda/device/bytes.h"
#include "backends/cuda/device/cache.h"
#include "backends/cuda/device/halves.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(to_halves, ToHalvesParams, kToHalvesThreads, 1) {
  const uint32_t before = step_rows(p.step, gpu::kGeneratedRows);
  const uint32_t column = block_x();
  if (before + column >= step_rows(p.step, gpu::kTokenRows)) return;
  const Global<const float> x(p.x);
  const uint32_t from = (before + column) * p.stride;
  float factor = 1.0f;
  if (p.brains == 0) {
    float most = 0;
    for (uint32_t i = thread(); i < p.k; i += kToHalvesThreads) {
      most = most_of(most, magnitude_of(x[from + i]));
    }
    const HalfRange range = half_range<kToHalvesThreads / 32>(most);
    factor = range.factor;
    if (thread() == 0) Global<float>(p.to.back)[column] = range.back;
  } else if (thread() == 0) {
    Global<float>(p.to.back)[column] = 1.0f;
  }
  const auto bits_of_part = [&](float value) {
    return p.brains != 0 ? brain_bits(value) : half_bits(value);
  };
  for (uint32_t unit = thread(); unit < p.units; unit += kToHalvesThreads) {
    const float4 low = four_elements(x, from, 8 * unit, p.k, p.aligned);
    const float4 high = four_elements(x, from, 8 * unit + 4, p.k, p.aligned);
    const float v[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    uint32_t words[kHalfParts][4] = {};
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
      const float value = v[i] * factor;
      const uint32_t first = bits_of_part(value);
      const float near = p.brains != 0 ? float_of(first << 16) : half_of(first);
      // What is not finite is in the first part alone.
      const uint32_t second = magnitude_of(near) < infinity() ? bits_of_part(value - near) : 0;
      words[0][i / 2] |= first << (i % 2 * 16);
      words[1][i / 2] |= second << (i % 2 * 16);
    }
#pragma unroll
    for (uint32_t part = 0; part < kHalfParts; ++part) {
      const uint64_t at = (uint64_t{unit} * kHalfParts + part) * p.to.columns + column;
      store_as<uint4>(Global<uint4>(p.to.words), static_cast<int64_t>(at),
                      uint4{words[part][0], words[part][1], words[part][2], words[part][3]});
    }
  }
}

}  // namespace infer::cuda
