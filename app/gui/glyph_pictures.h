// Glyphs that ImGui cannot take from a font by itself: those in colours, and those of characters
// beyond its 16 bits. FreeType draws them; it is opened at run time.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "gui/system_fonts.h"

namespace infer::gui {

struct GlyphPicture {
  int width = 0, height = 0;     ///< pixels
  float left = 0, top = 0;       ///< of its corner, from the pen on the baseline; `top` upwards
  float advance = 0;             ///< pixels to the next glyph
  bool coloured = false;         ///< else it is white
  std::vector<uint32_t> pixels;  ///< by rows from the top: bytes of red, green, blue, opacity
};

/// One thread.
class GlyphPictures {
 public:
  GlyphPictures() = default;
  ~GlyphPictures();
  GlyphPictures(const GlyphPictures&) = delete;
  GlyphPictures& operator=(const GlyphPictures&) = delete;

  /// Whether FreeType is there.
  static bool available();
  /// The character in a font whose em is `em` pixels. Nothing if the font has no picture of it that
  /// FreeType can draw.
  std::optional<GlyphPicture> draw(const FontFile& font, char32_t code, float em);

 private:
  void* face_of(const FontFile& font);

  void* library_ = nullptr;                        ///< FT_Library
  std::vector<std::pair<FontFile, void*>> faces_;  ///< FT_Face; null: it cannot be read
};

}  // namespace infer::gui
