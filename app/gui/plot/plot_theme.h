// Colours and font of all plots. Filled by the window from its theme.
#pragma once

#include <imgui.h>

#include <array>
#include <cstddef>

namespace infer::gui {

struct PlotTheme {
  ImFont* font = nullptr;  ///< null: ImGui's current font
  float font_size = 13;    ///< pixels
  float scale = 1;         ///< of lines, gaps and marks: 2 on a screen of twice the density
  ImU32 text = IM_COL32(30, 30, 30, 255);
  ImU32 faint = IM_COL32(110, 110, 110, 255);
  ImU32 grid = IM_COL32(0, 0, 0, 28);
  ImU32 axis = IM_COL32(0, 0, 0, 90);
  ImU32 background = IM_COL32(255, 255, 255, 255);
  ImU32 pointer = IM_COL32(0, 0, 0, 120);    ///< line through the value under the pointer
  ImU32 limit = IM_COL32(200, 30, 30, 255);  ///< what must not be passed
  std::array<ImU32, 10> series{};            ///< of parts and series without a colour of their own

  ImU32 series_colour(size_t i, ImU32 own) const {
    return own != 0 ? own : series[i % series.size()];
  }
};

}  // namespace infer::gui
