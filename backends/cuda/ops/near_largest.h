// The values of each row that are near the row's largest, in two launches over parts of the rows:
// the largest of each part, then a list. What is not a number is neither.
#pragma once

#include <cstdint>

namespace infer::cuda {

inline constexpr int kNearThreads = 64;

/// A block for each part (x) of each row (y).
struct NearLargestParams {
  uint64_t values;   ///< f32 [columns, rows]
  uint64_t largest;  ///< f32 [parts, rows]
  /// u32, for each row: how many are near (0 before the launch), then up to `capacity` pairs of
  /// index and value.
  uint64_t lists;
  uint32_t columns, part_columns, parts, capacity;
  float reach;
  uint32_t listed;  ///< 1: the second launch
};
static_assert(sizeof(NearLargestParams) == 48);

}  // namespace infer::cuda
