#include "gui/panes/text_style.h"

#include <imgui/imgui.h>

#include "gui/theme.h"

namespace infer::gui {

void style_text(TextLook& look, const Fonts& fonts) {
  const float size = fonts.pixels();
  const auto set = [&](Face face, FontKind kind, float share) {
    ImFont* const font = fonts.font(kind);
    look.fonts[static_cast<size_t>(face)] = {font, (share == 0 ? font->FontSize : size * share)};
  };
  set(Face::body, FontKind::text, 1);
  set(Face::strong, FontKind::bold, 1);
  set(Face::emphasis, FontKind::text, 1);
  set(Face::strong_emphasis, FontKind::bold, 1);
  set(Face::code, FontKind::code, 0);
  set(Face::heading1, FontKind::bold, 1.45f);
  set(Face::heading2, FontKind::bold, 1.25f);
  set(Face::heading3, FontKind::bold, 1.1f);
  const Theme& t = theme();
  TextColours& c = look.colours;
  c.text = packed(t.text);
  c.faint = packed(t.faint);
  c.link = packed(t.accent);
  c.selection = packed(t.selection);
  c.code_background = packed(t.code);
  c.code_header = packed(t.raised);
  c.inline_code = packed(t.raised, 0.8f);
  c.quote_bar = packed(t.border);
  c.line = packed(t.border);
  c.table_header = packed(t.raised, 0.7f);
  c.scroll_bar = packed(t.border);
  c.tokens.fill(packed(t.text));
  const auto token = [&](Token which, Rgb rgb) {
    c.tokens[static_cast<size_t>(which)] = packed(rgb);
  };
  token(Token::keyword, t.series[3]);
  token(Token::string, t.series[1]);
  token(Token::comment, t.faint);
  token(Token::number, t.series[2]);
  look.scale = scale();
  ++look.generation;
}

}  // namespace infer::gui
