// How many rows of attention are split along their keys.
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

}  // namespace infer::gpu
