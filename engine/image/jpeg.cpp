// JPEG by libjpeg-turbo. It reports errors by longjmp: the functions that call setjmp have no
// objects with destructors, and neither has anything between them and libjpeg.
#include <cstddef>
#include <cstdio>
// Needs a size_t and a FILE that are declared.
#include <jpeglib.h>
// Its numbers depend on the settings that jpeglib.h includes.
#include <jerror.h>

#include <csetjmp>

#include "engine/image/decoders.h"
#include "engine/image/exif.h"

namespace infer {
namespace {

// Each scan of a progressive image visits all of its pixels, and needs few bytes for it. Usual
// images have ten scans.
constexpr int kMostScans = 100;

struct JpegReading {
  JpegReading() = default;
  JpegReading(const JpegReading&) = delete;
  JpegReading& operator=(const JpegReading&) = delete;
  ~JpegReading() { jpeg_destroy_decompress(&info); }

  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  jpeg_source_mgr bytes = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf back = {};
  bool ended = false;          ///< libjpeg asked for more than there is
  bool out_of_memory = false;  ///< an allocation failed
  char message[JMSG_LENGTH_MAX] = {};
};

JpegReading& reading_of(j_common_ptr info) { return *static_cast<JpegReading*>(info->client_data); }

[[noreturn]] void jpeg_failed(j_common_ptr info) {
  JpegReading& reading = reading_of(info);
  reading.out_of_memory = info->err->msg_code == JERR_OUT_OF_MEMORY;
  info->err->format_message(info, reading.message);
  std::longjmp(reading.back, 1);
}

/// Fails where libjpeg makes up pixels and only warns. Other warnings are harmless.
void jpeg_warned(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC: jpeg_failed(info);
    default: break;
  }
}

void jpeg_is_silent(j_common_ptr) {}

void jpeg_needs_nothing(j_decompress_ptr) {}

boolean jpeg_ends(j_decompress_ptr info) {
  reading_of(reinterpret_cast<j_common_ptr>(info)).ended = true;
  info->err->msg_code = JERR_INPUT_EOF;
  jpeg_failed(reinterpret_cast<j_common_ptr>(info));
}

void jpeg_skip(j_decompress_ptr info, long count) {
  if (count <= 0) return;
  const auto size = static_cast<size_t>(count);
  if (size > info->src->bytes_in_buffer) jpeg_ends(info);
  info->src->next_input_byte += size;
  info->src->bytes_in_buffer -= size;
}

void jpeg_counts_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  JpegReading& reading = reading_of(info);
  std::snprintf(reading.message, sizeof(reading.message), "it has more than %d scans", kMostScans);
  std::longjmp(reading.back, 1);
}

/// Reads what stands before the pixels. False after an error.
bool jpeg_begin(JpegReading& reading, const uint8_t* data, size_t size) {
  jpeg_decompress_struct& info = reading.info;
  info.err = jpeg_std_error(&reading.errors);
  reading.errors.error_exit = jpeg_failed;
  reading.errors.emit_message = jpeg_warned;
  reading.errors.output_message = jpeg_is_silent;
  info.client_data = &reading;
  if (setjmp(reading.back) != 0) return false;
  jpeg_create_decompress(&info);
  reading.bytes.next_input_byte = data;
  reading.bytes.bytes_in_buffer = size;
  reading.bytes.init_source = jpeg_needs_nothing;
  reading.bytes.fill_input_buffer = jpeg_ends;
  reading.bytes.skip_input_data = jpeg_skip;
  reading.bytes.resync_to_restart = jpeg_resync_to_restart;
  reading.bytes.term_source = jpeg_needs_nothing;
  info.src = &reading.bytes;
  reading.progress.progress_monitor = jpeg_counts_scans;
  info.progress = &reading.progress;
  jpeg_save_markers(&info, JPEG_APP0 + 1, 0xffff);  // EXIF
  jpeg_read_header(&info, TRUE);
  return true;
}

/// Of an inverted CMYK pixel: what of the light of a colour the black ink leaves, as 8-bit fixed
/// point, rounded.
uint8_t lit(int ink, int black) {
  const int taken = (255 - ink) * black + 128;
  const int rounded = (taken + (taken >> 8)) >> 8;
  return static_cast<uint8_t>(black > rounded ? black - rounded : 0);
}

/// What the first EXIF marker of a file says. It is kept until the file is read.
int jpeg_orientation(const jpeg_decompress_struct& info) {
  constexpr std::string_view kExif{"Exif\0\0", 6};
  for (jpeg_saved_marker_ptr marker = info.marker_list; marker != nullptr; marker = marker->next) {
    const std::string_view text(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (text.starts_with(kExif)) return exif_orientation({marker->data, marker->data_length});
  }
  return 1;
}

/// Reads all pixels. `cmyk` is a row of four components, null if the image has others. False after
/// an error.
bool jpeg_finish(JpegReading& reading, uint8_t* rgb, size_t row_bytes, uint8_t* cmyk) {
  if (setjmp(reading.back) != 0) return false;
  jpeg_decompress_struct& info = reading.info;
  info.out_color_space = cmyk != nullptr ? JCS_CMYK : JCS_RGB;
  info.dct_method = JDCT_ISLOW;
  info.do_fancy_upsampling = TRUE;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    uint8_t* const row = rgb + info.output_scanline * row_bytes;
    JSAMPROW target = cmyk != nullptr ? cmyk : row;
    jpeg_read_scanlines(&info, &target, 1);
    if (cmyk == nullptr) continue;
    for (size_t x = 0; x < info.output_width; ++x) {
      const uint8_t* const pixel = cmyk + 4 * x;
      for (size_t c = 0; c < 3; ++c) row[3 * x + c] = lit(pixel[c], pixel[3]);
    }
  }
  jpeg_finish_decompress(&info);
  return true;
}

}  // namespace

Result<DecodedImage> decode_jpeg(const ImageSource& source) {
  JpegReading reading;
  const auto failed = [&] {
    if (reading.out_of_memory) return no_memory_for_image(source, "JPEG");
    if (reading.ended) return image_ends_early(source, "JPEG");
    return image_is_damaged(source, "JPEG", reading.message);
  };
  if (!jpeg_begin(reading, source.data(), source.bytes.size())) return failed();
  const jpeg_decompress_struct& info = reading.info;
  const int components = info.num_components;
  if (components != 1 && components != 3 && components != 4) {
    return fail(StatusCode::bad_file, "{}: expected a JPEG image of 1, 3 or 4 components, found {}",
                source.name, components);
  }
  DecodedImage decoded;
  decoded.orientation = jpeg_orientation(info);
  INFER_TRY(decoded.image, blank_image(source, info.image_width, info.image_height));
  std::vector<uint8_t> cmyk(components == 4 ? size_t{info.image_width} * 4 : 0);
  if (!jpeg_finish(reading, decoded.image.rgb.data(), size_t{info.image_width} * 3,
                   cmyk.empty() ? nullptr : cmyk.data())) {
    return failed();
  }
  return decoded;
}

}  // namespace infer
