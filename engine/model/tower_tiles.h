// What towers share that cut large images into tiles.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
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

/// The grid in which the image, scaled to fit in, keeps the most of its pixels; of equal ones the
/// one that is filled best, then the first. Nothing if none keeps any.
std::optional<ImageSize> fullest_grid(ImageSize size, std::span<const ImageSize> grids,
                                      int64_t side);

/// The image with its upper left corner at this place of a picture; the rest is black. The image is
/// within the picture.
Image placed_on_black(const Image& image, ImageSize size, int32_t left, int32_t top);

/// The image scaled to fit into a picture of this size, in its middle; the rest is black. Errors:
/// those of resize().
Result<Image> centred_on_black(const Image& image, ImageSize size, Filter filter);

/// Which columns and lines of a grid an image covers that was scaled to fit into its middle.
struct CoveredCells {
  int32_t first_column = 0, end_column = 0, first_line = 0, end_line = 0;
};
CoveredCells covered_cells(ImageSize image, ImageSize grid);

}  // namespace infer
