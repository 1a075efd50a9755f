// Colours and measures of the window.
#pragma once

#include <string_view>

struct ImVec4;

namespace infer::gui {

enum class ThemeKind { light, dark, contrast };

/// "light", "dark", "contrast"; anything else is as the system, which may be dark.
ThemeKind theme_of(std::string_view name, bool system_is_dark);

/// A colour: red, green, blue in 0xRRGGBB.
using Rgb = unsigned;

struct Theme {
  Rgb background, panel, raised, border;
  Rgb text, faint, on_accent;
  Rgb accent, danger, warning, good;
  Rgb user_message, code, selection;
  /// Of plots: weights, cache, work space, draft model, other programs, free; then further series.
  Rgb series[8];
};

const Theme& theme_colours(ThemeKind kind);
/// The one in use.
const Theme& theme();
/// Sets ImGui's style. `scale`: pixels for each unit of length.
void apply_theme(ThemeKind kind, float scale);
/// Pixels for each unit of length.
float scale();

ImVec4 colour(Rgb rgb, float alpha = 1);
/// As ImGui's draw lists want it.
unsigned packed(Rgb rgb, float alpha = 1);

}  // namespace infer::gui
