#include "engine/model/tower_patches.h"

#include <algorithm>
#include <cmath>

namespace infer {
namespace {

/// An image's sides differ less than this many times.
constexpr double kMostAspect = 200;

}  // namespace

PixelLimits read_pixel_limits(HparamReader& r, const TowerInfo& tower, PixelLimits usual) {
  const int64_t unit = tower.patch * tower.merged;
  constexpr int64_t kMost = int64_t{1} << 40;
  PixelLimits limits;
  limits.most = r.get_int("vision.image_max_pixels", usual.most, unit * unit, kMost);
  limits.least = r.get_int("vision.image_min_pixels", usual.least, 1, kMost);
  limits.least = std::min(limits.least, limits.most);
  return limits;
}

Result<ImageSize> fit_area(ImageSize size, const TowerInfo& tower, const PixelLimits& limits,
                           int64_t most) {
  const auto unit = static_cast<double>(tower.patch * tower.merged);
  const double most_area = std::min(static_cast<double>(limits.most),
                                    static_cast<double>(std::max<int64_t>(most, 1)) * unit * unit);
  const double least_area = std::min(static_cast<double>(limits.least), most_area);
  const double width = size.width;
  const double height = size.height;
  if (size.width < 1 || size.height < 1 ||
      std::max(width, height) > kMostAspect * std::min(width, height)) {
    return fail(
        StatusCode::bad_file,
        "an image of {} x {} pixels: expected a longer side of at most {} times the shorter "
        "one",
        size.width, size.height, kMostAspect);
  }
  double units_x = std::nearbyint(width / unit);
  double units_y = std::nearbyint(height / unit);
  const double area = units_x * units_y * unit * unit;
  if (area < least_area) {
    const double factor = std::sqrt(least_area / (width * height));
    units_x = std::ceil(width * factor / unit);
    units_y = std::ceil(height * factor / unit);
  }
  if (units_x * units_y * unit * unit > most_area) {
    const double factor = std::sqrt(width * height / most_area);
    units_x = std::max(1.0, std::floor(width / factor / unit));
    units_y = std::max(1.0, std::floor(height / factor / unit));
  }
  // A side of one unit may have been rounded up.
  const double units = std::max(1.0, std::floor(most_area / (unit * unit)));
  units_x = std::max(1.0, std::min(units_x, std::floor(units / std::min(units_y, units))));
  units_y = std::max(1.0, std::min(units_y, std::floor(units / units_x)));
  return ImageSize{static_cast<int32_t>(units_x * unit), static_cast<int32_t>(units_y * unit)};
}

ImageSize patch_grid(const Image& image, const TowerInfo& tower) {
  return {static_cast<int32_t>(image.width / tower.patch),
          static_cast<int32_t>(image.height / tower.patch)};
}

TowerStep cut_into_patches(const Image& image, const TowerInfo& tower, int32_t window) {
  const ImageSize patches = patch_grid(image, tower);
  const auto merged = static_cast<int32_t>(tower.merged);
  const auto side = static_cast<int32_t>(tower.patch);
  TowerStep step;
  step.grid = {patches.width / merged, patches.height / merged};
  const size_t count = static_cast<size_t>(patches.width) * static_cast<size_t>(patches.height);
  step.positions.reserve(count);
  std::vector<float>& pixels = step.inputs.emplace_back();
  pixels.reserve(count * 3 * static_cast<size_t>(side) * static_cast<size_t>(side));
  step.output_rows.resize(static_cast<size_t>(merged) * static_cast<size_t>(merged));
  const auto add_patch = [&](int32_t row, int32_t column) {
    step.positions.emplace_back(row, column, 0);
    for (size_t colour = 0; colour < 3; ++colour) {
      const float mean = tower.mean[colour];
      const float deviation = tower.deviation[colour];
      for (int32_t y = row * side; y < (row + 1) * side; ++y) {
        const size_t first = (static_cast<size_t>(y) * static_cast<size_t>(image.width) +
                              static_cast<size_t>(column * side)) *
                                 3 +
                             colour;
        for (size_t x = 0; x < static_cast<size_t>(side); ++x) {
          const float value = static_cast<float>(image.rgb[first + 3 * x]) / 255.0f;
          pixels.push_back((value - mean) / deviation);
        }
      }
    }
  };
  const auto cells = static_cast<size_t>(step.grid.width) * static_cast<size_t>(step.grid.height);
  step.output_ends.resize(cells);
  for (std::vector<int32_t>& rows : step.output_rows) rows.resize(cells);
  const auto add_square = [&](int32_t row, int32_t column) {
    const auto cell = static_cast<size_t>(row * step.grid.width + column);
    for (int32_t i = 0; i < merged * merged; ++i) {
      step.output_rows[static_cast<size_t>(i)][cell] = static_cast<int32_t>(step.positions.size());
      add_patch(row * merged + i / merged, column * merged + i % merged);
    }
    step.output_ends[cell] = static_cast<int32_t>(step.positions.size());
  };
  const int32_t across = window > 0 ? window : std::max(step.grid.width, step.grid.height);
  for (int32_t top = 0; top < step.grid.height; top += across) {
    for (int32_t left = 0; left < step.grid.width; left += across) {
      const auto begin = static_cast<int32_t>(step.positions.size());
      for (int32_t row = top; row < std::min(top + across, step.grid.height); ++row) {
        for (int32_t column = left; column < std::min(left + across, step.grid.width); ++column) {
          add_square(row, column);
        }
      }
      if (window == 0) continue;
      step.part_begins.resize(step.positions.size(), begin);
      step.part_ends.resize(step.positions.size(), static_cast<int32_t>(step.positions.size()));
    }
  }
  return step;
}

ValueId merge_patches(ModelBuilder& m, ValueId x, const TowerInfo& tower) {
  ValueId all = kNoValue;
  for (int32_t i = 0; i < tower.merged * tower.merged; ++i) {
    const ValueId part = m.g.add(op::SelectRows{}, {x, m.g.input(StepInput::output_rows, i)});
    all = all == kNoValue ? part : m.g.add(op::Concat{}, {all, part});
  }
  return all;
}

void add_class_row(TowerStep& step, int64_t values) {
  step.positions.emplace_back(0, 0, 0);
  step.inputs[0].resize(step.inputs[0].size() + static_cast<size_t>(values));
}

namespace {

/// What each of n points takes of the places around it: `reach` on each side, by their distance.
template <typename Weight>
std::vector<double> shares(int64_t places, int64_t n, int64_t reach, Weight weight) {
  std::vector<double> all(static_cast<size_t>(places * n));
  const double scale = static_cast<double>(places) / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale - 0.5;
    const auto first = static_cast<int64_t>(std::floor(centre)) - reach + 1;
    for (int64_t place = first; place < first + 2 * reach; ++place) {
      const int64_t held = std::clamp<int64_t>(place, 0, places - 1);
      const double distance = std::abs(static_cast<double>(place) - centre);
      all[static_cast<size_t>(i * places + held)] += weight(distance);
    }
  }
  return all;
}

}  // namespace

std::vector<double> cubic_shares(int64_t places, int64_t n) {
  constexpr double kA = -0.75;
  return shares(places, n, 2, [](double x) {
    if (x <= 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
    return x < 2 ? ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA : 0.0;
  });
}

std::vector<double> linear_shares(int64_t places, int64_t n) {
  return shares(places, n, 1, [](double x) { return std::max(0.0, 1 - x); });
}

void add_resampled(TowerStep& step, ImageSize grid, const PlaceTable& table, Shares shares) {
  const int64_t width = table.width;
  const int64_t columns = table.columns;
  const int64_t rows = static_cast<int64_t>(table.values.size()) / (columns * width);
  const std::vector<double> across = shares(columns, grid.width);
  const std::vector<double> down = shares(rows, grid.height);
  // First along the lines, then across them: [grid's columns][places down][width].
  std::vector<double> lines(static_cast<size_t>(grid.width * rows * width));
  for (int64_t x = 0; x < grid.width; ++x) {
    for (int64_t place = 0; place < rows * columns; ++place) {
      const double share = across[static_cast<size_t>(x * columns + place % columns)];
      if (share == 0) continue;
      double* sums = lines.data() + (x * rows + place / columns) * width;
      const float* from = table.values.data() + place * width;
      for (int64_t i = 0; i < width; ++i) sums[i] += share * from[i];
    }
  }
  std::vector<float>& to = step.inputs.emplace_back();
  to.reserve(step.positions.size() * static_cast<size_t>(width));
  std::vector<double> sum(static_cast<size_t>(width));
  for (const Position& at : step.positions) {
    std::ranges::fill(sum, 0.0);
    for (int64_t y = 0; y < rows; ++y) {
      const double share = down[static_cast<size_t>(at.axes[0] * rows + y)];
      const double* from = lines.data() + (at.axes[1] * rows + y) * width;
      for (size_t i = 0; share != 0 && i < sum.size(); ++i) sum[i] += share * from[i];
    }
    for (const double value : sum) to.push_back(static_cast<float>(value));
  }
}

RopeSpec image_rope(int64_t head, double base) {
  RopeSpec spec;
  spec.pairs = static_cast<int32_t>(head / 2);
  spec.base = base;
  const int32_t half = spec.pairs / 2;
  for (int32_t i = 0; i < 2 * half; ++i) {
    spec.of_pairs.push_back({static_cast<uint8_t>(i / half), static_cast<double>(i % half) / half});
  }
  return spec;
}

}  // namespace infer
