// Products of weights with few columns, on tensor cores (weights/stream.cu). Their parameters are
// ProductParams, without x, norm and chunk.
#pragma once

#include "backends/cuda/weights/product.h"

namespace infer::cuda {

/// Tiles along K whose weights and activations a warp copies together, and how many of these are on
/// their way or in use.
inline constexpr uint32_t kStreamTiles = 4;
inline constexpr uint32_t kStreamStages = 2;

/// Bytes of a stage of a warp. `weights`: bytes of 16 rows; `runs`: of a tile whose activations are
/// summed, 0: none.
INFER_HOST_AND_DEVICE constexpr uint32_t stream_bytes(uint32_t weights, uint32_t columns,
                                                      uint32_t runs) {
  return weights + kStreamTiles * columns * (64 + 16 + 4 * runs);
}

}  // namespace infer::cuda
