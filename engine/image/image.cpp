#include "engine/image/image.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "engine/image/decoders.h"

namespace infer {
namespace {

using namespace std::string_view_literals;

/// How files of a kind begin. Bytes written as '?' may be any.
struct FirstBytes {
  std::string_view bytes;
  std::string_view kind;
};

constexpr FirstBytes kOtherKinds[] = {
    {"GIF8"sv, "a GIF image"},
    {"BM"sv, "a BMP image"},
    {"II*\0"sv, "a TIFF image"},
    {"MM\0*"sv, "a TIFF image"},
    {"????ftypavif"sv, "an AVIF image"},
    {"????ftypavis"sv, "an AVIF image"},
    {"????ftyphei"sv, "a HEIC image"},
    {"????ftyphev"sv, "a HEIC image"},
    {"????ftypmif1"sv, "a HEIF image"},
    {"????ftyp"sv, "a video"},
    {"\0\0\0\x0cjP  "sv, "a JPEG 2000 image"},
    {"\xff\x4f\xff\x51"sv, "a JPEG 2000 image"},
    {"\xff\x0a"sv, "a JPEG XL image"},
    {"\0\0\0\x0cJXL "sv, "a JPEG XL image"},
    {"\0\0\1\0"sv, "an icon"},
    {"8BPS"sv, "a Photoshop image"},
    {"%PDF"sv, "a PDF document"},
    {"<svg"sv, "an SVG image"},
    {"<?xml"sv, "an XML document"},
    {"<!"sv, "an HTML page"},
    {"<html"sv, "an HTML page"},
};

bool matches(std::span<const std::byte> bytes, std::string_view first) {
  if (bytes.size() < first.size()) return false;
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i] != '?' && bytes[i] != static_cast<std::byte>(first[i])) return false;
  }
  return true;
}

/// What a file is that is no image of a known format.
std::string found_kind(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "an empty file";
  for (const FirstBytes& other : kOtherKinds) {
    if (matches(bytes, other.bytes)) return std::string(other.kind);
  }
  std::string text = "a file that begins with the bytes";
  for (const std::byte byte : bytes.first(std::min<size_t>(bytes.size(), 8))) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += ' ';
    text += kDigits[static_cast<unsigned>(byte) >> 4];
    text += kDigits[static_cast<unsigned>(byte) & 15];
  }
  return text;
}

/// The picture as EXIF's orientation 2 to 8 says it is to be looked at.
Image upright(const Image& image, int orientation) {
  const int64_t width = image.width, height = image.height;
  // The pixel (x, y) of the result is the pixel start + x·right + y·down of the image.
  int64_t start = 0, right = 1, down = width;
  const int64_t last_x = width - 1, last_y = (height - 1) * width;
  const bool transposed = orientation >= 5;
  if (transposed) std::swap(right, down);
  switch (orientation) {
    case 2: start = last_x, right = -1; break;
    case 3: start = last_x + last_y, right = -1, down = -width; break;
    case 4: start = last_y, down = -width; break;
    case 6: start = last_y, right = -width; break;
    case 7: start = last_x + last_y, right = -width, down = -1; break;
    case 8: start = last_x, down = -1; break;
    default: break;
  }
  Image out{image.width, image.height, std::vector<uint8_t>(image.rgb.size())};
  if (transposed) std::swap(out.width, out.height);
  uint8_t* to = out.rgb.data();
  for (int32_t y = 0; y < out.height; ++y) {
    int64_t at = start + y * down;
    for (int32_t x = 0; x < out.width; ++x, at += right, to += 3) {
      std::memcpy(to, &image.rgb[static_cast<size_t>(at) * 3], 3);
    }
  }
  return out;
}

}  // namespace

Result<Image> blank_image(const ImageSource& source, uint32_t width, uint32_t height) {
  const uint64_t pixels = uint64_t{width} * height;
  if (pixels == 0 || pixels > static_cast<uint64_t>(source.most_pixels)) {
    return fail(StatusCode::bad_file, "{}: expected 1 to {} pixels, found {} x {}", source.name,
                source.most_pixels, width, height);
  }
  constexpr uint32_t kMostSide = INT32_MAX;
  if (width > kMostSide || height > kMostSide) {
    return fail(StatusCode::bad_file, "{}: expected sides of at most {} pixels, found {} x {}",
                source.name, kMostSide, width, height);
  }
  return Image{static_cast<int32_t>(width), static_cast<int32_t>(height),
               std::vector<uint8_t>(static_cast<size_t>(pixels) * 3)};
}

tl::unexpected<Status> image_ends_early(const ImageSource& source, std::string_view format) {
  return fail(StatusCode::bad_file,
              "{}: expected a whole {} image, found {} bytes, which end too early", source.name,
              format, source.bytes.size());
}

tl::unexpected<Status> image_is_damaged(const ImageSource& source, std::string_view format,
                                        std::string_view why) {
  return fail(StatusCode::bad_file, "{}: expected a sound {} image, found a damaged one: {}",
              source.name, format, why);
}

tl::unexpected<Status> no_memory_for_image(const ImageSource& source, std::string_view format) {
  return fail(StatusCode::out_of_memory, "{}: no memory to decode the {} image", source.name,
              format);
}

Result<Image> decode_image(std::span<const std::byte> bytes, std::string_view name,
                           int64_t most_pixels) {
  if (most_pixels < 1) {
    return fail(StatusCode::invalid_argument, "{}: expected a limit of at least 1 pixel, found {}",
                name, most_pixels);
  }
  // Sizes in bytes stay far from the largest integers.
  const ImageSource source{bytes, name, std::min(most_pixels, int64_t{1} << 40)};
  Result<DecodedImage> (*decode)(const ImageSource&) = nullptr;
  if (matches(bytes, "\x89PNG\r\n\x1a\n"sv)) {
    decode = decode_png;
  } else if (matches(bytes, "\xff\xd8\xff"sv)) {
    decode = decode_jpeg;
  } else if (matches(bytes, "RIFF????WEBP"sv)) {
    decode = decode_webp;
  } else {
    return fail(StatusCode::bad_file, "{}: expected a PNG, JPEG or WebP image, found {}", name,
                found_kind(bytes));
  }
  INFER_TRY(DecodedImage decoded, decode(source));
  if (decoded.orientation == 1) return std::move(decoded.image);
  return upright(decoded.image, decoded.orientation);
}

}  // namespace infer
