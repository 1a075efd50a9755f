#include "gui/text/look.h"

#include "gui/text/arabic.h"
#include "gui/text/stand_ins.h"
#include "gui/text/utf8.h"

namespace infer::gui {

const ImFontGlyph* glyph_of(const TextFont& font, char32_t code) {
  const char32_t shown = stand_in(code);
  if (shown == kUnknownCharacter && code != kUnknownCharacter) return nullptr;
  return font.font->FindGlyphNoFallback(static_cast<ImWchar>(shown));
}

float box_width(const TextFont& font, char32_t code) {
  return font.size * (columns_of(code) == 2 ? 1.1f : 0.65f);
}

bool is_wide_blank(char32_t code) {
  return code == ' ' || code == 0xA0 || code == 0x3000 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x202F || code == 0x205F;
}

float FontMeasure::advance(Face face, char32_t code) const {
  const TextFont& f = font(face);
  const float scale = f.size / f.font->FontSize;
  const ImFontGlyph* glyph = glyph_of(f, code);
  if (glyph != nullptr) return glyph->AdvanceX * scale;
  if (code == '\t' || code == '\n') return 0;
  if (is_wide_blank(code)) {
    return f.font->GetCharAdvance(' ') * scale * static_cast<float>(columns_of(code));
  }
  if (needs_) needs_(code);
  // A font may have the letter without its forms.
  const char32_t letter = letter_of_form(code);
  if (letter != code) return advance(face, letter);
  return box_width(f, code);
}

float FontMeasure::ascent(Face face) const {
  const TextFont& f = font(face);
  return f.font->Ascent * f.size / f.font->FontSize;
}

float FontMeasure::descent(Face face) const {
  const TextFont& f = font(face);
  return -f.font->Descent * f.size / f.font->FontSize;
}

}  // namespace infer::gui
