// How text looks: fonts, colours and distances. Filled by the window from its theme.
#pragma once

#include <imgui.h>

#include <array>
#include <cstdint>
#include <functional>

#include "gui/text/highlight.h"
#include "gui/text/layout.h"

namespace infer::gui {

struct TextFont {
  ImFont* font = nullptr;
  float size = 0;  ///< pixels
};

struct TextColours {
  ImU32 text = 0, faint = 0, link = 0, selection = 0;
  ImU32 code_background = 0, code_header = 0, inline_code = 0;
  ImU32 quote_bar = 0, line = 0, table_header = 0, scroll_bar = 0;
  std::array<ImU32, kTokens> tokens{};  ///< by Token
};

struct TextLook {
  std::array<TextFont, kFaces> fonts;  ///< by Face; all are set
  TextColours colours;
  LayoutStyle style;
  float scale = 1;          ///< of lines and corners: 2 on a screen of twice the density
  uint64_t generation = 0;  ///< changes with fonts, sizes and style: everything is laid out again
};

/// Width of the box that stands for a character without a glyph. It does not depend on the
/// character but for its columns, so that a line keeps its length when the glyph arrives late.
float box_width(const TextFont& font, char32_t code);

/// The glyph that `font` has for `code` or its stand-in, or null.
const ImFontGlyph* glyph_of(const TextFont& font, char32_t code);

/// Blanks of all widths. They are drawn as nothing, with or without a glyph.
bool is_wide_blank(char32_t code);

class FontMeasure : public Measure {
 public:
  /// `needs` is told of each character without a glyph, as often as it is met; may be empty. Both
  /// must outlive the measure.
  FontMeasure(const TextLook& look, const std::function<void(char32_t)>& needs)
      : look_(look), needs_(needs) {}

  float advance(Face face, char32_t code) const override;
  float ascent(Face face) const override;
  float descent(Face face) const override;

 private:
  const TextFont& font(Face face) const { return look_.fonts[static_cast<size_t>(face)]; }

  const TextLook& look_;
  const std::function<void(char32_t)>& needs_;
};

}  // namespace infer::gui
