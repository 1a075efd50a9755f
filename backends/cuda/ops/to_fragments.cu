// A column is multiplied by a power of two, so that its largest element is in [2^13, 2^14)
// (device/halves.h), and rounded to float16.
#include "backends/cuda/ops/to_fragments.h"

#include "backends/cuda/device/bytes.h"
#include "backends/cuda/device/halves.h"
#include "backends/cuda/device/norm.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

INFER_KERNEL(to_fragments, ToFragmentsParams, kToFragmentsThreads, 1) {
  const uint32_t before = step_rows(p.step, gpu::kGeneratedRows);
  const uint32_t column = block_x();
  if (before + column >= step_rows(p.step, gpu::kTokenRows)) return;
  const Global<const float> x(p.x);
  const uint32_t from = (before + column) * p.stride;
  const float factor = p.normed != 0 ? norm_factor(x, from, p.k, p.eps) : 1.0f;
  const auto four_at = [&](uint32_t i) {
    const float4 v = four_elements(x, from, i, p.k, p.aligned);
    return p.normed != 0 ? normed(v, factor, p.norm, i, p.k) : v;
  };
  float most = 0;
  for (uint32_t i = thread() * 4; i < p.k; i += kToFragmentsThreads * 4) {
    const float4 v = four_at(i);
    most = most_of(most, most_of(most_of(magnitude_of(v.x), magnitude_of(v.y)),
                                 most_of(magnitude_of(v.z), magnitude_of(v.w))));
  }
  const HalfRange range = half_range<kToFragmentsThreads / 32>(most);
  if (thread() == 0) Global<float>(p.to.back)[column] = range.back / kDecodedFactor;
  for (uint32_t i = thread() * 4; i < p.steps * 16; i += kToFragmentsThreads * 4) {
    const float4 v = four_at(i);
    const uint64_t at = (uint64_t{i / 16} * 2 * p.to.columns + column) * 4 + i % 16 / 4;
    const Global<uint32_t> words(p.to.words);
    words[static_cast<int64_t>(at)] = packed_halves(v.x * range.factor, v.y * range.factor);
    words[static_cast<int64_t>(at + uint64_t{p.to.columns} * 4)] =
        packed_halves(v.z * range.factor, v.w * range.factor);
  }
}

}  // namespace infer::cuda
