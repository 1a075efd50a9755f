// What towers share that cut large images into tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/core/status.h"
#include "engine/image/image.h"
#include "engine/model/tower.h"

namespace infer {

/// The squares of `side` pixels of a picture whose sides are multiples of that, row by row. Errors:
/// those of crop().
Result<std::vector<Image>> cut_into_tiles(const Image& image, int64_t side);

/// How many tiles an image may be cut into.
struct TileLimits {
  int64_t least = 1, most = 1;
};

/// Columns and rows of the grid, within the limits, whose form is closest to the image's. Of grids
/// of equal form the largest whose pixels are less than twice the image's; `side`: of a tile.
ImageSize closest_grid(ImageSize size, const TileLimits& limits, int64_t side);

}  // namespace infer
