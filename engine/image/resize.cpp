#include "engine/image/resize.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <vector>

#include "engine/core/portable_math.h"

namespace infer {
namespace {

// Sums fit into 32 bits: the positive weights of a pixel add up to less than 1.5, also once they
// are rounded, and a byte takes 8 bits more.
constexpr int kFractionBits = 22;
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

double sinc(double x) {
  if (x == 0) return 1;
  const double angle = x * std::numbers::pi;
  return portable::cos_sin(angle).sin / angle;
}

double radius_of(Filter filter) {
  switch (filter) {
    case Filter::bilinear: return 1;
    case Filter::bicubic: return 2;
    case Filter::lanczos: return 3;
  }
  return 1;
}

/// The filter at a distance, in pixels of the unwidened filter.
double weight_at(Filter filter, double distance) {
  const double x = std::abs(distance);
  switch (filter) {
    case Filter::bilinear: return x < 1 ? 1 - x : 0;
    case Filter::bicubic: {
      constexpr double a = -0.5;
      if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
      return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
    }
    case Filter::lanczos: return x < 3 ? sinc(x) * sinc(x / 3) : 0;
  }
  return 0;
}

/// Which pixels of a side make one pixel of the result, and their weights in fixed point.
struct Window {
  int32_t first, count;
  size_t weights;  ///< index of the first one
};

struct Windows {
  std::vector<Window> windows;
  std::vector<int32_t> weights;
};

Windows windows_of(int32_t from, int32_t to, Filter filter) {
  const double scale = static_cast<double>(from) / to;
  const double widened = std::max(scale, 1.0);
  const double radius = radius_of(filter) * widened;
  Windows out;
  out.windows.reserve(static_cast<size_t>(to));
  std::vector<double> exact;
  for (int32_t i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * scale;
    // Pixels whose centres are nearer than the radius, rounded outward by up to half a pixel.
    const auto first = static_cast<int32_t>(std::max(centre - radius + 0.5, 0.0));
    const auto end = static_cast<int32_t>(std::min(centre + radius + 0.5, double{1} * from));
    exact.clear();
    double sum = 0;
    for (int32_t pixel = first; pixel < end; ++pixel) {
      exact.push_back(weight_at(filter, (pixel - centre + 0.5) * (1 / widened)));
      sum += exact.back();
    }
    out.windows.push_back({first, end - first, out.weights.size()});
    for (const double weight : exact) {
      const double fixed = (sum != 0 ? weight / sum : weight) * (1 << kFractionBits);
      out.weights.push_back(static_cast<int32_t>(fixed + (fixed < 0 ? -0.5 : 0.5)));
    }
  }
  return out;
}

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

Image scale_rows(const Image& image, int32_t width, Filter filter) {
  const Windows side = windows_of(image.width, width, filter);
  Image out{width, image.height, {}};
  out.rgb.resize(static_cast<size_t>(width) * static_cast<size_t>(image.height) * 3);
  uint8_t* to = out.rgb.data();
  for (int32_t y = 0; y < image.height; ++y) {
    const uint8_t* const row = image.rgb.data() + size_t{3} * y * image.width;
    for (const Window& window : side.windows) {
      const int32_t* const weights = side.weights.data() + window.weights;
      const uint8_t* pixel = row + size_t{3} * window.first;
      int32_t red = kHalf, green = kHalf, blue = kHalf;
      for (int32_t i = 0; i < window.count; ++i, pixel += 3) {
        red += pixel[0] * weights[i];
        green += pixel[1] * weights[i];
        blue += pixel[2] * weights[i];
      }
      to[0] = to_byte(red);
      to[1] = to_byte(green);
      to[2] = to_byte(blue);
      to += 3;
    }
  }
  return out;
}

Image scale_columns(const Image& image, int32_t height, Filter filter) {
  const Windows side = windows_of(image.height, height, filter);
  const size_t row_bytes = static_cast<size_t>(image.width) * 3;
  Image out{image.width, height, std::vector<uint8_t>(row_bytes * static_cast<size_t>(height))};
  std::vector<int32_t> sums(row_bytes);
  uint8_t* to = out.rgb.data();
  for (const Window& window : side.windows) {
    std::ranges::fill(sums, kHalf);
    for (int32_t i = 0; i < window.count; ++i) {
      const int32_t weight = side.weights[window.weights + static_cast<size_t>(i)];
      const uint8_t* const row =
          image.rgb.data() + static_cast<size_t>(window.first + i) * row_bytes;
      int32_t* const sum = sums.data();
      for (size_t x = 0; x < row_bytes; ++x) sum[x] += row[x] * weight;
    }
    to = std::ranges::transform(sums, to, to_byte).out;
  }
  return out;
}

/// Checks that an image has the bytes that its sides say.
Status check_image(const Image& image) {
  if (image.width > 0 && image.height > 0 &&
      image.rgb.size() / 3 == static_cast<uint64_t>(image.width) * image.height &&
      image.rgb.size() % 3 == 0) {
    return {};
  }
  return error(StatusCode::invalid_argument,
               "image: expected 3 bytes for each of at least one pixel, found {} bytes for {} x {}",
               image.rgb.size(), image.width, image.height);
}

}  // namespace

Result<Image> resize(const Image& image, int32_t width, int32_t height, Filter filter) {
  INFER_CHECK_R(check_image(image));
  const auto fits = [](int64_t columns, int64_t rows) { return columns * rows <= kMostPixels; };
  if (width < 1 || height < 1 || !fits(width, height)) {
    return fail(StatusCode::invalid_argument,
                "resized image: expected 1 to {} pixels, found {} x {}", kMostPixels, width,
                height);
  }
  const bool rows = width != image.width, columns = height != image.height;
  if (rows && columns && !fits(width, image.height)) {
    return fail(StatusCode::invalid_argument,
                "resized image: expected at most {} pixels once its rows are scaled, found {} x {}",
                kMostPixels, width, image.height);
  }
  if (rows && columns) return scale_columns(scale_rows(image, width, filter), height, filter);
  if (rows) return scale_rows(image, width, filter);
  if (columns) return scale_columns(image, height, filter);
  return image;
}

Result<Image> crop(const Image& image, int32_t x, int32_t y, int32_t width, int32_t height) {
  INFER_CHECK_R(check_image(image));
  if (x < 0 || y < 0 || width < 1 || height < 1 || width > image.width - x ||
      height > image.height - y) {
    return fail(StatusCode::invalid_argument,
                "part of an image: expected pixels of {} x {}, found {} x {} from ({}, {})",
                image.width, image.height, width, height, x, y);
  }
  const size_t row_bytes = static_cast<size_t>(width) * 3;
  Image out{width, height, std::vector<uint8_t>(row_bytes * static_cast<size_t>(height))};
  for (int32_t row = 0; row < height; ++row) {
    const size_t from =
        (static_cast<size_t>(y + row) * static_cast<size_t>(image.width) + static_cast<size_t>(x)) *
        3;
    std::copy_n(image.rgb.data() + from, row_bytes,
                out.rgb.data() + static_cast<size_t>(row) * row_bytes);
  }
  return out;
}

}  // namespace infer
