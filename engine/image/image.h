// Pictures for models that read them: PNG, JPEG and WebP files, decoded to 8-bit RGB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/core/status.h"

namespace infer {

/// The largest picture that is decoded or made, in pixels, unless a caller says otherwise.
inline constexpr int64_t kMostPixels = 64'000'000;

/// A picture. `rgb` has 3·width·height bytes: rows from the top, red, green and blue of each pixel.
struct Image {
  int32_t width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

/// Decodes a PNG, JPEG or WebP file, which its first bytes tell apart. `name` begins the messages.
///
/// The pixels are those of Pillow's ImageOps.exif_transpose(image).convert("RGB"):
/// - Transparency is dropped: a transparent pixel has the colour that is stored for it.
/// - JPEG is decoded with the exact integer DCT and smooth upsampling. CMYK values are taken as
///   inverted, as Adobe's programs write them.
/// - The orientation of EXIF data is applied. That of XMP data, or of a PNG file's text, is not
/// read.
/// - Colour profiles and gamma are not applied.
/// - An animated WebP file gives its first frame on a black canvas.
/// One thing differs: 16-bit grey keeps its high byte, as other 16-bit colours do, where Pillow
/// takes all values above 255 as white.
///
/// Memory is taken only after width × height is found to be at most `most_pixels` (> 0).
/// Errors: bad_file if the file is of another kind, damaged, cut short or too large;
/// out_of_memory if a decoder gets none; invalid_argument if `most_pixels` is below 1.
Result<Image> decode_image(std::span<const std::byte> bytes, std::string_view name,
                           int64_t most_pixels = kMostPixels);

}  // namespace infer
