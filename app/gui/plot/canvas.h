// What all plots share: an area that is one item of ImGui, text in it, and a tooltip.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gui/plot/plot_theme.h"

namespace infer::gui {

/// An area of the window. Draws into the window's draw list.
class Canvas {
 public:
  /// Takes `size` pixels at ImGui's cursor as an item called `name`.
  Canvas(const char* name, ImVec2 size, const PlotTheme& theme);

  ImVec2 min() const { return min_; }
  ImVec2 max() const { return max_; }
  float width() const { return max_.x - min_.x; }
  bool is_hovered() const { return is_hovered_; }
  bool is_held() const { return is_held_; }
  ImVec2 pointer() const { return ImGui::GetIO().MousePos; }
  ImDrawList& list() { return *list_; }
  float line_height() const { return theme_.font_size * 1.35f; }
  /// Pixels of a length given for a scale of 1.
  float px(float length) const { return length * theme_.scale; }

  float text_width(std::string_view text) const;
  void text(ImVec2 at, std::string_view text, ImU32 colour);
  /// Cut, with "..." at its end, if it is wider than `width`.
  void fitting_text(ImVec2 at, std::string_view text, float width, ImU32 colour);
  void rectangle(ImVec2 from, ImVec2 to, ImU32 colour, float round = 0) {
    list_->AddRectFilled(from, to, colour, round);
  }

 private:
  ImFont* font() const { return theme_.font != nullptr ? theme_.font : ImGui::GetFont(); }

  const PlotTheme& theme_;
  ImDrawList* list_;
  ImVec2 min_, max_;
  bool is_hovered_ = false, is_held_ = false;
};

/// A line of a tooltip; a colour of 0 shows no square.
struct TipLine {
  std::string text;
  ImU32 colour = 0;
};
void show_tip(const std::vector<TipLine>& lines);

/// Coloured squares with names and values, as many in a line as fit.
struct LegendEntry {
  std::string text;
  ImU32 colour = 0;
};
float legend_height(const std::vector<LegendEntry>& entries, float width, const PlotTheme& theme);
/// Returns the entry under the pointer, -1 if there is none.
int draw_legend(Canvas& canvas, ImVec2 at, const std::vector<LegendEntry>& entries,
                const PlotTheme& theme);

}  // namespace infer::gui
