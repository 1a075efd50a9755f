// How the keys of few rows are shared out: among chunks of attention, and among parts of what is
// chosen from.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/core/tensor_desc.h"

namespace infer::gpu {

/// Bytes of `chunks` chunks of a row of results: f32 [2 + elements, heads] each.
inline int64_t chunk_bytes(const TensorDesc& y, int64_t chunks) {
  return (y.shape[0] + 2) * chunks * y.shape[1] * int64_t{sizeof(float)};
}

/// At most `most` rows, and fewer where their chunks take much memory.
inline int64_t split_rows(const TensorDesc& y, int64_t chunks, int64_t most) {
  constexpr int64_t kFew = 16;
  constexpr int64_t kMostBytes = int64_t{64} << 20;
  return std::min({y.shape[2], most, std::max(kFew, kMostBytes / chunk_bytes(y, chunks))});
}

/// Parts of the keys that each list of SelectSlots' result y is made of; if `split` is 0, one.
/// `most`: of a single list. More lists have fewer, since they fill a GPU together. A step of up to
/// `split` rows may have far fewer than y has; the lists of a larger one have 2 · `most` parts
/// together, also for the memory that these take.
inline int64_t select_parts(const TensorDesc& y, int64_t most, int64_t split) {
  constexpr int64_t kLeast = 32;
  const int64_t lists = std::max<int64_t>(y.shape[1] * y.shape[2], 1);
  if (split == 0) return 1;
  if (y.shape[2] > split) return std::clamp<int64_t>(2 * most / lists, 1, most);
  return std::max(most / lists, kLeast);
}

}  // namespace infer::gpu
