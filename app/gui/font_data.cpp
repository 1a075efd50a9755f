#include "gui/font_data.h"

#include <stb/stb_image.h>
#include <stb/stb_truetype.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <system_error>

#include "platform/embed.h"

// The files of the package, compressed by gzip.
INFER_EMBED(infer_font_text, INFER_FONT_FOLDER "/DejaVuSans.ttf.gz", 16);
INFER_EMBED(infer_font_bold, INFER_FONT_FOLDER "/DejaVuSans-Bold.ttf.gz", 16);
INFER_EMBED(infer_font_code, INFER_FONT_FOLDER "/DejaVuSansMono.ttf.gz", 16);

namespace infer::gui {
namespace {

using Bytes = std::span<const unsigned char>;

constexpr std::uintmax_t kMostBytes = 256 << 20;

// RFC 1952: a header, here without a name, the deflated data, then a checksum and the size.
constexpr size_t kGzipHeader = 10, kGzipTrailer = 8;

Bytes unpacked(Bytes gzip) {
  const Bytes deflated = gzip.subspan(kGzipHeader, gzip.size() - kGzipHeader - kGzipTrailer);
  int size = 0;
  char* const bytes = stbi_zlib_decode_noheader_malloc(
      reinterpret_cast<const char*>(deflated.data()), static_cast<int>(deflated.size()), &size);
  if (bytes == nullptr) throw std::bad_alloc();
  return {reinterpret_cast<unsigned char*>(bytes), static_cast<size_t>(size)};
}

}  // namespace

Bytes built_in_font(FontKind kind) {
  static const std::array<Bytes, 3> fonts{unpacked({infer_font_text, infer_font_text_end}),
                                          unpacked({infer_font_bold, infer_font_bold_end}),
                                          unpacked({infer_font_code, infer_font_code_end})};
  return fonts[static_cast<size_t>(kind)];
}

bool built_in_font_has(uint32_t codepoint) {
  static const stbtt_fontinfo font = [] {
    stbtt_fontinfo info{};
    const Bytes bytes = built_in_font(FontKind::text);
    stbtt_InitFont(&info, bytes.data(), 0);
    return info;
  }();
  return stbtt_FindGlyphIndex(&font, static_cast<int>(codepoint)) != 0;
}

std::vector<unsigned char> read_font(const FontFile& file) {
  std::error_code failed;
  const std::uintmax_t size = std::filesystem::file_size(file.path, failed);
  if (failed || size > kMostBytes) return {};
  std::vector<unsigned char> bytes(size);
  std::ifstream in(file.path, std::ios::binary);
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  if (in.gcount() != static_cast<std::streamsize>(size)) return {};
  if (size < 12 || stbtt_GetFontOffsetForIndex(bytes.data(), file.index) < 0) return {};
  return bytes;
}

}  // namespace infer::gui
