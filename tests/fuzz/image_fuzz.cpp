// libFuzzer: decodes a picture, and makes others of it.
//
// The input is a file. What is decoded has as many bytes as its size says, keeps to the limit, and
// is the same when it is decoded again. Bad files give a message that begins with their name.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "engine/image/image.h"
#include "engine/image/resize.h"

namespace {

// Small, so that the time of an input is that of its bytes.
constexpr int64_t kPixels = 1 << 16;
constexpr std::string_view kName = "fuzz";

void check(bool holds) {
  if (!holds) std::abort();
}

void check_size(const infer::Image& image) {
  check(image.width > 0 && image.height > 0);
  check(int64_t{image.width} * image.height <= kPixels);
  check(image.rgb.size() == size_t{3} * image.width * image.height);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const infer::Result<infer::Image> image = infer::decode_image(bytes, kName, kPixels);
  if (!image) {
    check(image.error().code() == infer::StatusCode::bad_file);
    check(image.error().message().starts_with("fuzz: expected "));
    return 0;
  }
  check_size(*image);
  const infer::Result<infer::Image> again = infer::decode_image(bytes, kName, kPixels);
  check(again && again->rgb == image->rgb);
  using enum infer::Filter;
  for (const infer::Filter filter : {bilinear, bicubic, lanczos}) {
    const auto resized = infer::resize(*image, 1 + static_cast<int32_t>(size % 40), 17, filter);
    check(resized.has_value());
    check_size(*resized);
  }
  const auto part = infer::crop(*image, image->width / 2, 0, 1, image->height);
  check(part.has_value());
  check_size(*part);
  return 0;
}
