// What the decoders of the file formats share. Only engine/image uses it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/core/status.h"
#include "engine/image/image.h"

namespace infer {

/// A file to decode. It owns nothing.
struct ImageSource {
  std::span<const std::byte> bytes;
  std::string_view name;  ///< for messages
  int64_t most_pixels;

  const uint8_t* data() const { return reinterpret_cast<const uint8_t*>(bytes.data()); }
};

/// A picture as the file stores it, and how EXIF data says it is turned: 1 to 8, 1 means upright.
struct DecodedImage {
  Image image;
  int orientation = 1;
};

/// Each takes a file with the first bytes of its format. Errors as decode_image().
Result<DecodedImage> decode_png(const ImageSource& source);
Result<DecodedImage> decode_jpeg(const ImageSource& source);
Result<DecodedImage> decode_webp(const ImageSource& source);

/// A black picture. bad_file if it has no pixels or more than source.most_pixels.
Result<Image> blank_image(const ImageSource& source, uint32_t width, uint32_t height);

/// Failures with the same words for each format ("PNG").
tl::unexpected<Status> image_ends_early(const ImageSource& source, std::string_view format);
tl::unexpected<Status> image_is_damaged(const ImageSource& source, std::string_view format,
                                        std::string_view why);
tl::unexpected<Status> no_memory_for_image(const ImageSource& source, std::string_view format);

/// Copies a library's message into a buffer, cut to its size, with a zero at the end.
template <size_t N>
void keep_message(char (&buffer)[N], std::string_view text) {
  const size_t size = std::min(text.size(), N - 1);
  std::copy_n(text.data(), size, buffer);
  buffer[size] = 0;
}

}  // namespace infer
