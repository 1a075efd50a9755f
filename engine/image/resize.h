// Pictures of another size, and parts of pictures.
#pragma once

#include <cstdint>

#include "engine/core/status.h"
#include "engine/image/image.h"

namespace infer {

/// The function that weighs the pixels around a place.
enum class Filter {
  bilinear,  ///< a triangle of radius 1
  bicubic,   ///< Keys' cubic convolution of radius 2 with a = −1/2
  lanczos,   ///< a sinc windowed by a sinc, of radius 3
};

/// The picture in another size. Each side is scaled by itself. When a side shrinks, the filter is
/// widened by the same factor, so that every pixel counts.
///
/// The pixels are those of Pillow's Image.resize((width, height), filter) for 8-bit RGB up to
/// Pillow 12: rows are scaled first and rounded to 8 bits, then columns; weights have 22 fractional
/// bits; a side that keeps its size is left as it is. Pillow 13 scales columns first where that is
/// cheaper, which changes some values.
///
/// Errors: invalid_argument if `image` is not what it says, `width` or `height` is below 1, or the
/// result, or the image with its rows scaled, has more than kMostPixels.
///
/// Source: R. Keys, "Cubic convolution interpolation for digital image processing", 1981;
/// K. Turkowski, "Filters for common resampling tasks", 1990.
Result<Image> resize(const Image& image, int32_t width, int32_t height, Filter filter);

/// A rectangle of the picture; x and y are its left upper corner in pixels. invalid_argument if
/// `image` is not what it says, or if the rectangle has no pixels or is not inside of it.
Result<Image> crop(const Image& image, int32_t x, int32_t y, int32_t width, int32_t height);

}  // namespace infer
