// The shared memory of repack.cu.
#pragma once

#include <cstdint>

namespace infer::cuda {

/// Words of a cell (backends/gpu/repack.h), at most: 16 rows of 256 bytes.
inline constexpr uint32_t kCellWords = 1024;

}  // namespace infer::cuda
