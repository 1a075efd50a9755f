// Pictures resized and cut: the pixels are Pillow's.
#include "engine/image/resize.h"

#include <doctest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "tests/image/samples.h"

using namespace infer;
using namespace infer::test;

namespace {

struct NamedFilter {
  Filter filter;
  std::string name;
};
const NamedFilter kFilters[] = {
    {Filter::bilinear, "bilinear"}, {Filter::bicubic, "bicubic"}, {Filter::lanczos, "lanczos"}};

Image plain(int32_t width, int32_t height, uint8_t value) {
  return {
      width, height,
      std::vector<uint8_t>(static_cast<size_t>(width) * static_cast<size_t>(height) * 3, value)};
}

StatusCode code_of(const Result<Image>& image) {
  return image ? StatusCode::ok : image.error().code();
}

}  // namespace

TEST_CASE("pictures are resized as Pillow does") {
  const Image source = ppm("resized/source.ppm").at(0);
  for (const NamedFilter& named : kFilters) {
    const std::vector<Image> results = ppm("resized/" + named.name + ".ppm");
    CHECK(results.size() >= 10);
    for (const Image& expected : results) {
      CAPTURE(named.name);
      CAPTURE(expected.width);
      CAPTURE(expected.height);
      const Result<Image> image = resize(source, expected.width, expected.height, named.filter);
      REQUIRE(image);
      CHECK(same(*image, expected));
    }
  }
}

TEST_CASE("a picture in its own size stays as it is") {
  const Image source = ppm("resized/source.ppm").at(0);
  for (const NamedFilter& named : kFilters) {
    CAPTURE(named.name);
    const Result<Image> image = resize(source, source.width, source.height, named.filter);
    REQUIRE(image);
    CHECK(same(*image, source));
  }
}

TEST_CASE("one colour stays one colour") {
  for (const NamedFilter& named : kFilters) {
    CAPTURE(named.name);
    for (const int value : {0, 1, 128, 254, 255}) {
      const Image source = plain(301, 2, static_cast<uint8_t>(value));
      for (const auto& [width, height] : {std::pair{7, 1}, {300, 5}, {302, 2}, {1000, 3}}) {
        const Result<Image> image = resize(source, width, height, named.filter);
        REQUIRE(image);
        CHECK(std::ranges::all_of(image->rgb, [&](uint8_t byte) { return byte == value; }));
      }
    }
  }
}

TEST_CASE("sizes that cannot be are refused") {
  const Image source = plain(20, 10, 3);
  for (const auto& [width, height] : {std::pair{0, 5},
                                      {5, 0},
                                      {-1, 5},
                                      {5, -1},
                                      {INT32_MIN, INT32_MIN},
                                      {INT32_MAX, INT32_MAX},
                                      {64'000'001, 1},
                                      {8001, 8000}}) {
    CHECK(code_of(resize(source, width, height, Filter::bicubic)) == StatusCode::invalid_argument);
  }
  // The rows would be scaled to 40 million pixels each before the columns are.
  CHECK(code_of(resize(source, 40'000'000, 1, Filter::bicubic)) == StatusCode::invalid_argument);
  const Result<Image> refused = resize(source, 0, 5, Filter::bicubic);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message() == "resized image: expected 1 to 64000000 pixels, found 0 x 5");
  Image wrong = source;
  wrong.rgb.pop_back();
  CHECK(code_of(resize(wrong, 5, 5, Filter::bicubic)) == StatusCode::invalid_argument);
  CHECK(code_of(crop(wrong, 0, 0, 1, 1)) == StatusCode::invalid_argument);
  CHECK(code_of(resize(Image{}, 5, 5, Filter::bicubic)) == StatusCode::invalid_argument);
}

TEST_CASE("parts of pictures") {
  const Image source = ppm("resized/source.ppm").at(0);
  const Result<Image> all = crop(source, 0, 0, source.width, source.height);
  REQUIRE(all);
  CHECK(same(*all, source));
  const Result<Image> part = crop(source, 5, 3, 7, 4);
  REQUIRE(part);
  CHECK(part->width == 7);
  CHECK(part->height == 4);
  REQUIRE(part->rgb.size() == 7 * 4 * 3);
  for (int y = 0; y < 4; ++y) {
    for (int i = 0; i < 7 * 3; ++i) {
      CHECK(part->rgb[static_cast<size_t>(y * 21 + i)] ==
            source.rgb[static_cast<size_t>(((y + 3) * source.width + 5) * 3 + i)]);
    }
  }
  const Result<Image> corner = crop(source, source.width - 1, source.height - 1, 1, 1);
  REQUIRE(corner);
  CHECK(std::equal(corner->rgb.begin(), corner->rgb.end(), source.rgb.end() - 3));
  const auto refused = [&](int32_t x, int32_t y, int32_t width, int32_t height) {
    return code_of(crop(source, x, y, width, height)) == StatusCode::invalid_argument;
  };
  CHECK(refused(-1, 0, 1, 1));
  CHECK(refused(0, -1, 1, 1));
  CHECK(refused(0, 0, 0, 1));
  CHECK(refused(0, 0, 1, 0));
  CHECK(refused(1, 0, source.width, 1));
  CHECK(refused(0, 1, 1, source.height));
  CHECK(refused(INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX));
}
