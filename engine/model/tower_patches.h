// What towers share that keep an image's form: its size by area, patches in the order of the
// results that they make, and the positions of patches.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/builder.h"
#include "engine/model/tower.h"

namespace infer {

/// Pixels of an image after it was scaled.
struct PixelLimits {
  int64_t least = 1;
  int64_t most = 1;
};

/// `clip.vision.` image_min_pixels and image_max_pixels; `usual` for files that do not say.
PixelLimits read_pixel_limits(HparamReader& r, const TowerInfo& tower, PixelLimits usual);

/// The size whose sides are the nearest multiples of patch · merged pixels, scaled so that the area
/// is within the limits and makes at most `most` results (Wang et al. 2024). bad_file for
/// an image whose sides differ 200-fold and more.
Result<ImageSize> fit_area(ImageSize size, const TowerInfo& tower, const PixelLimits& limits,
                           int64_t most);

/// Columns and rows of patches.
ImageSize patch_grid(const Image& image, const TowerInfo& tower);

/// Patches in squares of merged · merged, the squares row by row and the patches of each row by
/// row: positions (row, column), one input of values less the mean and divided by the deviation,
/// [3] colours of [patch][patch] pixels, and lists of output rows: list i has the i-th patch of
/// each square, which ends at output_ends. With `window`, the squares of each window of
/// window · window squares follow each other, and the step says which patches are in one; windows
/// begin at the left upper corner, and those at the other edges may have less.
TowerStep cut_into_patches(const Image& image, const TowerInfo& tower, int32_t window = 0);

/// The patches of a square one after the other: x [n, 1, patches] → [n · merged², 1, results].
ValueId merge_patches(ModelBuilder& m, ValueId x, const TowerInfo& tower);

/// What each of n points between the ends of a row of `places` takes of these, [n][places], by
/// cubic convolution of a = -0.75 (Keys 1981); beyond an end its place is repeated.
std::vector<double> cubic_shares(int64_t places, int64_t n);

/// The same, in straight lines between the middles of places.
std::vector<double> linear_shares(int64_t places, int64_t n);

/// Adds the row of a class token behind the patches, which have `values` pixel values each: it has
/// none.
void add_class_row(TowerStep& step, int64_t values);

/// Learned places: values [down][columns][width].
struct PlaceTable {
  std::span<const float> values;
  int64_t width;
  int64_t columns;
};
/// Of n points in a row, what each takes of so many places: [n][places].
using Shares = std::vector<double> (*)(int64_t places, int64_t n);
/// Adds an input to a step: its patches' places in a table that is resampled to the grid of
/// patches.
void add_resampled(TowerStep& step, ImageSize grid, const PlaceTable& table, Shares shares);

/// RoPE of heads of so many elements whose first half of the pairs turns with the row and whose
/// second half with the column; both have the same frequencies.
RopeSpec image_rope(int64_t head, double base);

}  // namespace infer
