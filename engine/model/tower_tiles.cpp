#include "engine/model/tower_tiles.h"

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

}  // namespace infer
