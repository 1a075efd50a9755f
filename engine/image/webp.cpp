// WebP by libwebp. Its decoder takes still images; the frames of animations are found here.
// Source: the WebP container specification (RFC 9649, section 2).
#include <webp/decode.h>

#include "engine/image/decoders.h"
#include "engine/image/exif.h"

namespace infer {
namespace {

constexpr size_t kHeaderBytes = 12;       // RIFF, a size, WEBP
constexpr size_t kChunkHeaderBytes = 8;   // a name, a size
constexpr size_t kFrameHeaderBytes = 16;  // of a chunk ANMF

uint32_t little_endian(std::span<const uint8_t> bytes, size_t count) {
  uint32_t value = 0;
  for (size_t i = count; i > 0; --i) value = value << 8 | bytes[i - 1];
  return value;
}

/// The contents of the first chunk with this name; empty if there is none.
std::span<const uint8_t> chunk_of(std::span<const uint8_t> file, std::string_view name) {
  std::span<const uint8_t> rest = file.subspan(kHeaderBytes);
  while (rest.size() >= kChunkHeaderBytes) {
    const std::string_view found(reinterpret_cast<const char*>(rest.data()), 4);
    const size_t size = little_endian(rest.subspan(4), 4);
    rest = rest.subspan(kChunkHeaderBytes);
    if (size > rest.size()) break;
    if (found == name) return rest.first(size);
    rest = rest.subspan(std::min(size + size % 2, rest.size()));
  }
  return {};
}

tl::unexpected<Status> webp_failed(const ImageSource& source, VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY: return no_memory_for_image(source, "WebP");
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED: return image_ends_early(source, "WebP");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return image_is_damaged(source, "WebP", "it has an unknown feature");
    default: return image_is_damaged(source, "WebP", "its contents make no sense");
  }
}

/// Decodes `data` to a place of the image. The data's size fits there.
VP8StatusCode decode_at(std::span<const uint8_t> data, Image& image, size_t x, size_t y) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return VP8_STATUS_INVALID_PARAM;
  const size_t row_bytes = static_cast<size_t>(image.width) * 3;
  const size_t offset = y * row_bytes + x * 3;
  config.output.colorspace = MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = image.rgb.data() + offset;
  config.output.u.RGBA.stride = static_cast<int>(row_bytes);
  config.output.u.RGBA.size = image.rgb.size() - offset;
  return WebPDecode(data.data(), data.size(), &config);
}

/// Decodes the first frame of an animation.
Status decode_first_frame(const ImageSource& source, std::span<const uint8_t> file, Image& image) {
  const std::span<const uint8_t> frame = chunk_of(file, "ANMF");
  if (frame.size() < kFrameHeaderBytes) {
    return image_is_damaged(source, "WebP", "an animation without a frame").value();
  }
  const auto field = [&](size_t offset) { return little_endian(frame.subspan(offset), 3); };
  const uint32_t x = field(0) * 2, y = field(3) * 2;
  const uint32_t width = field(6) + 1, height = field(9) + 1;
  const std::span<const uint8_t> data = frame.subspan(kFrameHeaderBytes);
  WebPBitstreamFeatures features;
  if (const VP8StatusCode status = WebPGetFeatures(data.data(), data.size(), &features);
      status != VP8_STATUS_OK) {
    return webp_failed(source, status).value();
  }
  if (static_cast<uint32_t>(features.width) != width ||
      static_cast<uint32_t>(features.height) != height ||
      x + width > static_cast<uint32_t>(image.width) ||
      y + height > static_cast<uint32_t>(image.height) || features.has_animation != 0) {
    return image_is_damaged(source, "WebP", "a frame of another size than it says").value();
  }
  if (const VP8StatusCode status = decode_at(data, image, x, y); status != VP8_STATUS_OK) {
    return webp_failed(source, status).value();
  }
  return {};
}

}  // namespace

Result<DecodedImage> decode_webp(const ImageSource& source) {
  std::span<const uint8_t> file(source.data(), source.bytes.size());
  const uint64_t size = uint64_t{little_endian(file.subspan(4), 4)} + kChunkHeaderBytes;
  if (size > file.size()) return image_ends_early(source, "WebP");
  if (size < kHeaderBytes) return image_is_damaged(source, "WebP", "it has no chunks");
  file = file.first(static_cast<size_t>(size));
  WebPBitstreamFeatures features;
  if (const VP8StatusCode status = WebPGetFeatures(file.data(), file.size(), &features);
      status != VP8_STATUS_OK) {
    return webp_failed(source, status);
  }
  DecodedImage decoded;
  INFER_TRY(decoded.image, blank_image(source, static_cast<uint32_t>(features.width),
                                       static_cast<uint32_t>(features.height)));
  if (features.has_animation != 0) {
    INFER_CHECK_R(decode_first_frame(source, file, decoded.image));
  } else if (const VP8StatusCode status = decode_at(file, decoded.image, 0, 0);
             status != VP8_STATUS_OK) {
    return webp_failed(source, status);
  }
  decoded.orientation = exif_orientation(chunk_of(file, "EXIF"));
  return decoded;
}

}  // namespace infer
