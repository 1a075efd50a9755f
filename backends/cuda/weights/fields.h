// Weights of the plain layout (backends/gpu/weight_layout.h): a file of this folder defines, in a
// namespace named as the type,
//   struct Fields       elements of a block, and bytes of its part in each plane
//   runs(i)             where in the row the two runs of 16 of piece i of 32 elements begin
//   decode(row, i, v)   the piece: v[0 … 15] the first run, v[16 … 31] the second
// in the arithmetic of engine/quant/<type>.h, so that the values are equal to the last bit.
#pragma once

#include "backends/cuda/device/math.h"
#include "backends/cuda/device/memory.h"

namespace infer::cuda {

inline constexpr uint32_t kPiece = 32;

struct Runs {
  uint32_t first, second;
};
INFER_DEVICE Runs plain_runs(uint32_t i) { return {kPiece * i, kPiece * i + 16}; }

/// A row of a weight: where its first unit is in each plane.
struct Row {
  uint64_t plane[5];
  uint64_t tables;    ///< of the codebooks (gpu::StepHeader)
  uint32_t elements;  ///< of the row
};

INFER_DEVICE uint32_t part_of(const uint4& v, uint32_t i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}
INFER_DEVICE uint32_t part_of(const uint2& v, uint32_t i) { return i == 0 ? v.x : v.y; }

/// Byte i of a vector of 16.
INFER_DEVICE uint32_t byte_of(const uint4& words, uint32_t i) {
  return (part_of(words, i / 4) >> (i % 4 * 8)) & 255;
}
INFER_DEVICE int32_t signed_byte_of(const uint4& words, uint32_t i) {
  return static_cast<int32_t>(part_of(words, i / 4) << (24 - i % 4 * 8)) >> 24;
}

}  // namespace infer::cuda
