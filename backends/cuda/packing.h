// The layouts of weights for the kernels of this back end.
//
// Types of the fragment layout are multiplied by tensor cores (device/mma.h). 16 rows and 64
// elements of K are a tile: a lane of a warp loads with one or two vector loads what it needs of
// the tile as registers of A, so that no element has to change lanes. For element k of row r of a
// tile:
//   lane     4·(r mod 8) + (k mod 16) / 4
//   register 2·(k / 16 mod 2) + r / 8 of product k / 32; byte k mod 4
// Codes of the rows g and g + 8 are in words of their own (weights/words.h).
// The scales of rows g and g + 8 lie side by side in a plane of their own: the lanes 4g … 4g + 3
// load them together. A block of the layout is a tile, or four for types with blocks of 256.
// quant/<type>.h has the reading side.
//
// Other types have the plain layout of fields (backends/gpu/weight_layout.h).
#pragma once

#include "backends/gpu/weight_layout.h"

namespace infer::cuda {

inline constexpr int64_t kTileRows = 16;
inline constexpr int64_t kTileElements = 64;

/// Whether weights of the type have the fragment layout.
bool has_fragments(DType type);

/// The layout of a weight on the device.
gpu::WeightLayout weight_layout(const TensorDesc& desc);

}  // namespace infer::cuda
