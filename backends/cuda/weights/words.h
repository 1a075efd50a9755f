// Where the codes of the fragment layout (packing.h) are among the words of a lane.
#pragma once

#include <cstdint>

#include "backends/cuda/device/host_and_device.h"

namespace infer::cuda {

/// Of what a lane has of a block of the layout with `tiles` tiles, the place of word `word` of row
/// g + 8h in tile `tile`. `words`: of a row and tile, 1 to 4. The words of a row lie side by side
/// within vectors of four: a third one, after all the first two.
INFER_HOST_AND_DEVICE constexpr uint32_t word_place(uint32_t words, uint32_t tiles, uint32_t tile,
                                                    uint32_t h, uint32_t word) {
  if (words != 3) return (tile * 2 + h) * words + word;
  return word < 2 ? (tile * 2 + h) * 2 + word : (tiles * 2 + tile) * 2 + h;
}

}  // namespace infer::cuda
