// The size that an image gets, how it is cut into patches, and their angles.
#include <doctest.h>

#include <cmath>
#include <random>

#include "engine/model/tower_patches.h"

namespace infer {
namespace {

TowerInfo tower_of(int64_t patch, int64_t merged) {
  TowerInfo tower;
  tower.patch = patch;
  tower.merged = merged;
  return tower;
}

TEST_CASE("an image within the limits gets the nearest multiples of its units") {
  const TowerInfo tower = tower_of(8, 2);
  const PixelLimits limits{256, 1 << 20};
  const auto fitted = [&](int32_t width, int32_t height) {
    const ImageSize size = fit_area({width, height}, tower, limits, 10000).value();
    return std::pair(size.width, size.height);
  };
  CHECK(fitted(64, 48) == std::pair(64, 48));
  CHECK(fitted(70, 50) == std::pair(64, 48));
  CHECK(fitted(73, 57) == std::pair(80, 64));
  // Halves go to the even multiple.
  CHECK(fitted(72, 56) == std::pair(64, 64));
  CHECK(fitted(16, 16) == std::pair(16, 16));
}

TEST_CASE("whatever an image's form, its size is of whole units and within the limits") {
  std::mt19937 random(3);
  const auto between = [&](int32_t first, int32_t last) {
    return std::uniform_int_distribution<int32_t>(first, last)(random);
  };
  for (int i = 0; i < 20000; ++i) {
    const TowerInfo tower = tower_of(between(1, 32), between(1, 3));
    const int64_t unit = tower.patch * tower.merged;
    PixelLimits limits;
    limits.most = unit * unit * between(1, 3000) + between(0, 100);
    limits.least = std::min<int64_t>(limits.most, between(1, 1 << 20));
    const int64_t most = between(1, 2000);
    const int32_t longer = i % 3 == 0 ? between(1, 40) : between(1, 20000);
    const int32_t shorter = between((longer + 199) / 200, longer);
    const ImageSize from = i % 2 == 0 ? ImageSize{longer, shorter} : ImageSize{shorter, longer};
    CAPTURE(from.width);
    CAPTURE(from.height);
    CAPTURE(unit);
    const int64_t most_pixels = limits.most, least_pixels = limits.least;
    CAPTURE(most_pixels);
    CAPTURE(least_pixels);
    CAPTURE(most);
    const auto size = fit_area(from, tower, limits, most);
    REQUIRE(size.has_value());
    const int64_t columns = size->width / unit;
    const int64_t rows = size->height / unit;
    REQUIRE(size->width == columns * unit);
    REQUIRE(size->height == rows * unit);
    REQUIRE(columns >= 1);
    REQUIRE(rows >= 1);
    REQUIRE(columns * rows <= most);
    REQUIRE(columns * rows * unit * unit <= limits.most);
    // A square stays one if there is a size between the limits.
    const int64_t most_area = std::min(limits.most, most * unit * unit);
    if (longer == shorter && 4 * limits.least <= most_area) REQUIRE(columns == rows);
  }
}

TEST_CASE("a small image grows to the least area if there may be so many results") {
  const TowerInfo tower = tower_of(16, 2);
  const PixelLimits limits{65536, 1 << 24};
  for (const int32_t side : {1, 20, 100, 255}) {
    const ImageSize size = fit_area({side, side}, tower, limits, 1000).value();
    CHECK(size.width == 256);
    CHECK(size.height == 256);
  }
  const ImageSize large = fit_area({2000, 1000}, tower, {1, 512 * 1024}, 100000).value();
  CHECK(large.width == 1024);
  CHECK(large.height == 512);
}

TEST_CASE("images of which one side is more than 200 times the other are refused") {
  const TowerInfo tower = tower_of(8, 2);
  const PixelLimits limits{256, 1 << 20};
  CHECK(fit_area({200, 1}, tower, limits, 100).has_value());
  CHECK(fit_area({5, 1000}, tower, limits, 1).has_value());
  for (const ImageSize size : {ImageSize{201, 1},
                               {1, 201},
                               {1001, 5},
                               {0, 10},
                               {10, 0},
                               {0, 0},
                               {-5, 5},
                               {INT32_MAX, 1}}) {
    const auto fitted = fit_area(size, tower, limits, 100);
    REQUIRE(!fitted.has_value());
    CHECK(fitted.error().code() == StatusCode::bad_file);
    CHECK(fitted.error().message().find(std::to_string(size.width)) != std::string::npos);
  }
  const ImageSize huge = fit_area({INT32_MAX, INT32_MAX}, tower, limits, 100).value();
  CHECK(huge.width == 160);
  CHECK(huge.height == 160);
}

/// Every value of every pixel is another one.
Image numbered(int32_t width, int32_t height) {
  Image image{width, height, {}};
  for (int32_t i = 0; i < width * height * 3; ++i) {
    image.rgb.push_back(static_cast<uint8_t>(i % 251));
  }
  return image;
}

TEST_CASE("patches are in the order of the results that they make") {
  const TowerInfo tower = tower_of(3, 2);
  const Image image = numbered(18, 12);
  const TowerStep step = cut_into_patches(image, tower);
  CHECK(step.grid.width == 3);
  CHECK(step.grid.height == 2);
  CHECK(patch_grid(image, tower).width == 6);
  CHECK(patch_grid(image, tower).height == 4);
  REQUIRE(step.positions.size() == 24);
  REQUIRE(step.inputs.size() == 1);
  REQUIRE(step.inputs[0].size() == 24 * 3 * 9);
  REQUIRE(step.output_rows.size() == 4);
  for (size_t part = 0; part < 4; ++part) {
    REQUIRE(step.output_rows[part].size() == 6);
    for (size_t result = 0; result < 6; ++result) {
      const Position& at = step.positions[static_cast<size_t>(step.output_rows[part][result])];
      CHECK(at.axes[0] == static_cast<int32_t>(result / 3 * 2 + part / 2));
      CHECK(at.axes[1] == static_cast<int32_t>(result % 3 * 2 + part % 2));
    }
  }
}

TEST_CASE("a patch has the pixels of its place, colour by colour, less the mean and scaled") {
  TowerInfo tower = tower_of(3, 2);
  tower.mean = {0.5f, 0.25f, 0.0f};
  tower.deviation = {0.5f, 0.25f, 2.0f};
  const Image image = numbered(18, 12);
  const TowerStep step = cut_into_patches(image, tower);
  const float* value = step.inputs[0].data();
  for (const Position& at : step.positions) {
    for (size_t colour = 0; colour < 3; ++colour) {
      for (int32_t y = 0; y < 3; ++y) {
        for (int32_t x = 0; x < 3; ++x) {
          const int32_t pixel = (at.axes[0] * 3 + y) * 18 + at.axes[1] * 3 + x;
          const uint8_t stored = image.rgb[static_cast<size_t>(pixel) * 3 + colour];
          const double expected = (stored / 255.0 - tower.mean[colour]) / tower.deviation[colour];
          REQUIRE(*value++ == doctest::Approx(expected).epsilon(1e-6));
        }
      }
    }
  }
}

TEST_CASE("one patch may be one result") {
  const TowerStep step = cut_into_patches(numbered(8, 12), tower_of(4, 1));
  CHECK(step.output_rows == std::vector<std::vector<int32_t>>{{0, 1, 2, 3, 4, 5}});
  CHECK(step.grid.width == 2);
  CHECK(step.positions[3].axes[0] == 1);
  CHECK(step.positions[3].axes[1] == 1);
}

TEST_CASE("half of a head's pairs turn with the row, half with the column, equally fast") {
  const RopeSpec spec = image_rope(16, 100.0);
  REQUIRE(spec.pairs == 8);
  const RopeAngles angles(spec, {});
  std::vector<float> turns(16);
  angles.fill({7, 5, 0}, turns.data());
  for (int32_t i = 0; i < 8; ++i) {
    const double angle = (i < 4 ? 7 : 5) * std::pow(100.0, -(i % 4) / 4.0);
    CHECK(turns[static_cast<size_t>(2 * i)] == doctest::Approx(std::cos(angle)).epsilon(1e-6));
    CHECK(turns[static_cast<size_t>(2 * i + 1)] == doctest::Approx(std::sin(angle)).epsilon(1e-6));
  }
}

}  // namespace
}  // namespace infer
