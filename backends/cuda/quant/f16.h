// F16; the last block of a row ends in zeros.
// kernels: rows embed_rows half_tile
#pragma once

#include "backends/cuda/weights/halves.h"

namespace infer::cuda::INFER_TYPE {

inline constexpr bool kBrains = false;

INFER_DEVICE void decode(const Row& row, uint32_t i, float (&v)[32]) {
  decode_halves(
      row, i, [](uint32_t bits) { return half_of(bits); }, v);
}

}  // namespace infer::cuda::INFER_TYPE
