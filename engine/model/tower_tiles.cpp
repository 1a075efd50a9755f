#include "engine/model/tower_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/image/resize.h"

namespace infer {

Result<std::vector<Image>> cut_into_tiles(const Image& image, int64_t side) {
  std::vector<Image> tiles;
  const auto step = static_cast<int32_t>(side);
  for (int32_t y = 0; y + step <= image.height; y += step) {
    for (int32_t x = 0; x + step <= image.width; x += step) {
      INFER_TRY(tiles.emplace_back(), crop(image, x, y, step, step));
    }
  }
  return tiles;
}

ImageSize closest_grid(ImageSize size, const TileLimits& limits, int64_t side) {
  const double form = static_cast<double>(size.width) / size.height;
  const double area = static_cast<double>(size.width) * size.height;
  ImageSize best{1, 1};
  double least_difference = std::numeric_limits<double>::infinity();
  for (int64_t tiles = limits.least; tiles <= limits.most; ++tiles) {
    for (int64_t columns = 1; columns <= tiles; ++columns) {
      if (tiles % columns != 0) continue;
      const int64_t rows = tiles / columns;
      const double difference =
          std::abs(form - static_cast<double>(columns) / static_cast<double>(rows));
      const bool equal = difference == least_difference;
      if (difference > least_difference) continue;
      if (equal && area <= 0.5 * static_cast<double>(side * side * tiles)) continue;
      least_difference = difference;
      best = {static_cast<int32_t>(columns), static_cast<int32_t>(rows)};
    }
  }
  return best;
}

std::optional<ImageSize> fullest_grid(ImageSize size, std::span<const ImageSize> grids,
                                      int64_t side) {
  std::optional<ImageSize> best;
  int64_t most_kept = 0, least_unused = 0;
  for (const ImageSize& grid : grids) {
    const int64_t width = grid.width * side, height = grid.height * side;
    const double scale = std::min(static_cast<double>(width) / size.width,
                                  static_cast<double>(height) / size.height);
    const int64_t scaled =
        static_cast<int64_t>(size.width * scale) * static_cast<int64_t>(size.height * scale);
    const int64_t kept = std::min(scaled, int64_t{size.width} * size.height);
    const int64_t unused = width * height - kept;
    if (kept > most_kept || (best && kept == most_kept && unused < least_unused)) {
      most_kept = kept;
      least_unused = unused;
      best = grid;
    }
  }
  return best;
}

Image placed_on_black(const Image& image, ImageSize size, int32_t left, int32_t top) {
  Image whole{size.width, size.height, {}};
  whole.rgb.resize(size_t{3} * static_cast<size_t>(size.width) * static_cast<size_t>(size.height));
  for (int32_t y = 0; y < image.height; ++y) {
    const auto from = image.rgb.begin() + int64_t{3} * y * image.width;
    std::copy(from, from + int64_t{3} * image.width,
              whole.rgb.begin() + 3 * (int64_t{top + y} * size.width + left));
  }
  return whole;
}

Result<Image> centred_on_black(const Image& image, ImageSize size, Filter filter) {
  const double across = static_cast<double>(size.width) / image.width;
  const double down = static_cast<double>(size.height) / image.height;
  const auto scaled = [](int32_t length, double by, int32_t most) {
    return static_cast<int32_t>(std::min<double>(std::ceil(length * by), most));
  };
  const bool wide = across < down;
  INFER_TRY(const Image inner,
            resize(image, wide ? size.width : scaled(image.width, down, size.width),
                   wide ? scaled(image.height, across, size.height) : size.height, filter));
  return placed_on_black(inner, size, (size.width - inner.width) / 2,
                         (size.height - inner.height) / 2);
}

CoveredCells covered_cells(ImageSize image, ImageSize grid) {
  CoveredCells cells{0, grid.width, 0, grid.height};
  // A whole number that the products miss by their rounding counts as reached.
  const auto margin = [](int32_t all, double covered) {
    return (all - static_cast<int32_t>(std::floor(covered + 0.5e-7))) / 2;
  };
  if (static_cast<double>(image.width) / image.height >
      static_cast<double>(grid.width) / grid.height) {
    cells.first_line =
        margin(grid.height, image.height * (static_cast<double>(grid.width) / image.width));
    cells.end_line -= cells.first_line;
  } else {
    cells.first_column =
        margin(grid.width, image.width * (static_cast<double>(grid.height) / image.height));
    cells.end_column -= cells.first_column;
  }
  return cells;
}

}  // namespace infer
