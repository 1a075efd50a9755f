// A column is multiplied by a power of two, so that its largest element is in [2^13, 2^14)
// (device/halves.h), and rounded to float16.
#include "backends/cuda/ops/to_fragments.h"

#include "backends/cuda/device/bytes.h"
#include "backends/cuda/device/halves.h"
#include "backends/cuda/device/norm.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

/// The thread keeps its first elements, all of which are on their way at once.
template <uint32_t kThreads>
INFER_DEVICE void to_fragments_by(const ToFragmentsParams& p) {
  constexpr uint32_t kHeld = kToFragmentsHeld / 4;
  constexpr uint32_t kStep = kThreads * 4;
  const uint32_t before = step_rows(p.step, gpu::kGeneratedRows);
  const uint32_t column = block_x();
  if (before + column >= step_rows(p.step, gpu::kTokenRows)) return;
  const Global<const float> x(p.x);
  const uint32_t from = (before + column) * p.stride;
  const uint32_t first = thread() * 4;
  float4 held[kHeld];
#pragma unroll
  for (uint32_t j = 0; j < kHeld; ++j) {
    held[j] = four_elements(x, from, first + j * kStep, p.k, p.aligned);
  }
  const float factor = p.normed != 0 ? norm_factor(x, from, p.k, p.eps) : 1.0f;
  const Global<const float> weight(p.norm);
  const uint32_t weight_aligned = p.norm % 16 == 0 ? 1 : 0;
  const auto after_norm = [&](float4 v, uint32_t i) {
    if (p.normed == 0) return v;
    v = {v.x * factor, v.y * factor, v.z * factor, v.w * factor};
    if (p.norm == 0) return v;
    const float4 w = four_elements(weight, 0, i, p.k, weight_aligned);
    return float4{v.x * w.x, v.y * w.y, v.z * w.z, v.w * w.w};
  };
  float most = 0;
  const auto look_at = [&](const float4& v) {
    most = most_of(most, most_of(most_of(magnitude_of(v.x), magnitude_of(v.y)),
                                 most_of(magnitude_of(v.z), magnitude_of(v.w))));
  };
#pragma unroll
  for (uint32_t j = 0; j < kHeld; ++j) {
    held[j] = after_norm(held[j], first + j * kStep);
    look_at(held[j]);
  }
  const auto other = [&](uint32_t i) {
    return after_norm(four_elements(x, from, i, p.k, p.aligned), i);
  };
  for (uint32_t i = first + kHeld * kStep; i < p.k; i += kStep) look_at(other(i));
  const HalfRange range = half_range<kThreads / 32>(most);
  if (thread() == 0) Global<float>(p.to.back)[column] = range.back / kDecodedFactor;
  const Global<uint32_t> words(p.to.words);
  const auto put = [&](uint32_t i, const float4& v) {
    if (i >= p.steps * 16) return;
    const uint64_t at = (uint64_t{i / 16} * 2 * p.to.columns + column) * 4 + i % 16 / 4;
    words[static_cast<int64_t>(at)] = packed_halves(v.x * range.factor, v.y * range.factor);
    words[static_cast<int64_t>(at + uint64_t{p.to.columns} * 4)] =
        packed_halves(v.z * range.factor, v.w * range.factor);
  };
#pragma unroll
  for (uint32_t j = 0; j < kHeld; ++j) put(first + j * kStep, held[j]);
  for (uint32_t i = first + kHeld * kStep; i < p.steps * 16; i += kStep) put(i, other(i));
}

INFER_KERNEL(to_fragments, ToFragmentsParams, kToFragmentsThreads, 4) {
  to_fragments_by<kToFragmentsThreads>(p);
}
INFER_KERNEL(to_fragments_long, ToFragmentsParams, kToFragmentsLongThreads, 2) {
  to_fragments_by<kToFragmentsLongThreads>(p);
}

}  // namespace infer::cuda
