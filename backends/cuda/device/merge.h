// The chunks of attention (ops/attention.h).
#pragma once

#include "backends/cuda/device/cache.h"
#include "backends/cuda/ops/attention.h"

namespace infer::cuda {

/// The first slot that a row at `slot` sees. `chunked`: not 0: windows do not move with the row,
/// but follow one another (op::Attention).
INFER_DEVICE uint32_t first_seen(uint32_t slot, uint32_t window, uint32_t chunked) {
  if (chunked != 0) return slot - slot % window;
  return window > 0 && slot + 1 > window ? slot + 1 - window : 0;
}
INFER_DEVICE uint32_t pages_seen(uint32_t first, uint32_t slot) {
  return slot / kPageTokens - first / kPageTokens + 1;
}
INFER_DEVICE uint32_t chunk_pages(uint32_t pages) { return (pages + kChunks - 1) / kChunks; }

/// Takes a chunk (its largest score and sum) into what is merged so far. Mixes go along as
/// merged · keep + the chunk's · add.
struct Merging {
  float keep, add;
};
/// `now`: the larger of the two.
INFER_DEVICE Merging merging(float most, float chunk_most, float now) {
  return {exp_of(most - now), exp_of(chunk_most - now)};
}
INFER_DEVICE float merged_sum(float sum, float chunk_sum, const Merging& m) {
  return fused(chunk_sum, m.add, sum * m.keep);
}
INFER_DEVICE Merging merge(float& most, float& sum, float chunk_most, float chunk_sum) {
  const float now = most_of(most, chunk_most);
  const Merging m = merging(most, chunk_most, now);
  sum = merged_sum(sum, chunk_sum, m);
  most = now;
  return m;
}
INFER_DEVICE float merged_mix(float mix, float chunk_mix, const Merging& m) {
  return fused(chunk_mix, m.add, mix * m.keep);
}

}  // namespace infer::cuda
