// How the warps of a block share out K, included after the header of a type of the fragment layout:
// in stretches of whole units.
#pragma once

#include "backends/cuda/weights/product.h"

namespace infer::cuda::INFER_TYPE {

INFER_DEVICE uint32_t units_of(uint32_t k) {
  return (k + 64 * Weights::kTiles - 1) / (64 * Weights::kTiles);
}
/// Units.
struct Stretch {
  uint32_t begin, end;
};
/// The first one is as long as any other.
INFER_DEVICE Stretch stretch_of(uint32_t units, uint32_t part) {
  const uint32_t each = (units + kProductWarps - 1) / kProductWarps;
  const uint32_t begin = part * each < units ? part * each : units;
  return {begin, begin + each < units ? begin + each : units};
}

}  // namespace infer::cuda::INFER_TYPE
