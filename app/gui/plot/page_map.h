// Thousands of cells coloured by their state: pages of the KV cache.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gui/plot/canvas.h"

namespace infer::gui {

struct PageState {
  std::string_view name;
  ImU32 colour = 0;  ///< 0: the theme's
};

struct PageMap {
  std::span<const uint8_t> cells;  ///< index of each cell's state; one without a state is not drawn
  std::span<const PageState> states;
  /// Lines of the tooltip of a cell; empty: its number and state.
  std::function<std::string(size_t cell)> describe;
};

/// How cells fill an area: rows from left to right, top to bottom.
struct PageGrid {
  size_t columns = 1, rows = 0;
  size_t cells_each = 1;  ///< cells that share a square if there are more than pixels
  float side = 0;         ///< pixels of a square with its gap
};
PageGrid page_grid(size_t cells, float width, float height, float scale);

/// The height that draw_page_map() needs, at most `most`.
float page_map_height(const PageMap& map, float width, float most, const PlotTheme& theme);

/// Draws the squares, a legend with the number of cells in each state, and a tooltip. Returns the
/// cell under the pointer, -1 if there is none. Where cells share a square, the state with the
/// highest number among them is shown.
int64_t draw_page_map(const char* name, const PageMap& map, ImVec2 size, const PlotTheme& theme);

}  // namespace infer::gui
