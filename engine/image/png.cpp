// PNG by libpng. It reports errors by longjmp: the functions that call setjmp have no objects with
// destructors, and neither has anything between them and libpng.
#include <png.h>
#include <zlib.h>

#include <csetjmp>
#include <cstdlib>
#include <cstring>

#include "engine/image/decoders.h"
#include "engine/image/exif.h"

namespace infer {
namespace {

struct PngReading {
  PngReading() = default;
  PngReading(const PngReading&) = delete;
  PngReading& operator=(const PngReading&) = delete;
  ~PngReading() { png_destroy_read_struct(&png, &info, nullptr); }

  png_structp png = nullptr;
  png_infop info = nullptr;
  const uint8_t* next = nullptr;
  size_t left = 0;
  bool ended = false;          ///< libpng asked for more than there is
  bool out_of_memory = false;  ///< an allocation failed
  char message[200] = {};
};

[[noreturn]] void png_failed(png_structp png, png_const_charp text) {
  keep_message(static_cast<PngReading*>(png_get_error_ptr(png))->message, text);
  png_longjmp(png, 1);
}

void png_warned(png_structp, png_const_charp) {}

png_voidp png_allocate(png_structp png, png_alloc_size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) static_cast<PngReading*>(png_get_mem_ptr(png))->out_of_memory = true;
  return memory;
}

void png_release(png_structp, png_voidp memory) { std::free(memory); }

void png_fill(png_structp png, png_bytep out, size_t size) {
  auto* const reading = static_cast<PngReading*>(png_get_io_ptr(png));
  if (size > reading->left) {
    reading->ended = true;
    png_error(png, "the file ends");
  }
  std::memcpy(out, reading->next, size);
  reading->next += size;
  reading->left -= size;
}

/// Reads what stands before the pixels. False after an error.
bool png_begin(PngReading& reading) {
  reading.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &reading, png_failed, png_warned,
                                         &reading, png_allocate, png_release);
  if (reading.png == nullptr) return false;
  if (setjmp(png_jmpbuf(reading.png)) != 0) return false;
  png_structp const png = reading.png;
  reading.info = png_create_info_struct(png);
  if (reading.info == nullptr) return false;
  png_set_read_fn(png, &reading, png_fill);
  // The caller checks the size before anything is allocated for it.
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  // What does not change pixels is passed over: libpng would take the memory that it claims to
  // need.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(png, reading.info);
  return true;
}

/// Reads all pixels as 8-bit RGB, and what follows them. False after an error.
bool png_finish(PngReading& reading, uint8_t* rgb, size_t row_bytes, uint32_t height) {
  if (setjmp(png_jmpbuf(reading.png)) != 0) return false;
  png_structp const png = reading.png;
  const int type = png_get_color_type(png, reading.info);
  const int depth = png_get_bit_depth(png, reading.info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (depth == 16) png_set_strip_16(png);
  if ((type & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, reading.info);
  if (png_get_rowbytes(png, reading.info) != row_bytes) png_error(png, "rows of another size");
  for (int pass = 0; pass < passes; ++pass) {
    for (uint32_t y = 0; y < height; ++y) png_read_row(png, rgb + y * row_bytes, nullptr);
  }
  png_read_end(png, reading.info);
  return true;
}

uint32_t big_endian(std::span<const uint8_t> bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

/// The orientation in the first chunk eXIf that is sound.
int png_orientation(std::span<const uint8_t> file) {
  constexpr size_t kSignatureBytes = 8, kNameBytes = 4, kOtherBytes = 12;
  file = file.subspan(kSignatureBytes);
  while (file.size() >= kOtherBytes && big_endian(file) <= file.size() - kOtherBytes) {
    const size_t size = big_endian(file);
    const std::span<const uint8_t> named = file.subspan(4, kNameBytes + size);
    const std::string_view name(reinterpret_cast<const char*>(named.data()), kNameBytes);
    const uint32_t sum = big_endian(file.subspan(8 + size));
    if (name == "IEND") break;
    if (name == "eXIf" && crc32_z(0, named.data(), named.size()) == sum) {
      return exif_orientation(named.subspan(kNameBytes));
    }
    file = file.subspan(kOtherBytes + size);
  }
  return 1;
}

}  // namespace

Result<DecodedImage> decode_png(const ImageSource& source) {
  PngReading reading;
  reading.next = source.data();
  reading.left = source.bytes.size();
  const auto failed = [&] {
    if (reading.out_of_memory) return no_memory_for_image(source, "PNG");
    if (reading.ended) return image_ends_early(source, "PNG");
    return image_is_damaged(source, "PNG", reading.message);
  };
  if (!png_begin(reading)) return failed();
  DecodedImage decoded;
  const uint32_t height = png_get_image_height(reading.png, reading.info);
  INFER_TRY(decoded.image,
            blank_image(source, png_get_image_width(reading.png, reading.info), height));
  const size_t row_bytes = static_cast<size_t>(decoded.image.width) * 3;
  if (!png_finish(reading, decoded.image.rgb.data(), row_bytes, height)) return failed();
  decoded.orientation = png_orientation({source.data(), source.bytes.size()});
  return decoded;
}

}  // namespace infer
