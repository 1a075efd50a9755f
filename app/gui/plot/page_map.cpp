#include "gui/plot/page_map.h"

#include <algorithm>
#include <cmath>

#include "gui/plot/units.h"

namespace infer::gui {
namespace {

constexpr float kLargest = 16, kSmallest = 3;  ///< pixels of a square at a scale of 1

std::vector<LegendEntry> legend_of(const PageMap& map, const PlotTheme& theme) {
  std::vector<size_t> counts(map.states.size());
  for (const uint8_t state : map.cells) {
    if (state < counts.size()) ++counts[state];
  }
  std::vector<LegendEntry> legend;
  for (size_t i = 0; i < counts.size(); ++i) {
    legend.push_back({std::string(map.states[i].name) + " " + std::to_string(counts[i]),
                      theme.series_colour(i, map.states[i].colour)});
  }
  return legend;
}

float height_below(const std::vector<LegendEntry>& legend, float width, const PlotTheme& theme) {
  return legend_height(legend, width, theme) + 4 * theme.scale;
}

}  // namespace

float page_map_height(const PageMap& map, float width, float most, const PlotTheme& theme) {
  const float below = height_below(legend_of(map, theme), width, theme);
  const PageGrid grid = page_grid(map.cells.size(), width, most - below, theme.scale);
  return std::min(most, static_cast<float>(grid.rows) * grid.side + below);
}

PageGrid page_grid(size_t cells, float width, float height, float scale) {
  PageGrid grid;
  width = std::max(width, 1.0f);
  height = std::max(height, 1.0f);
  const auto fits = [&](float side, size_t squares) {
    const double columns = std::max(1.0, std::floor(static_cast<double>(width / side)));
    return columns * std::floor(static_cast<double>(height / side)) >= static_cast<double>(squares);
  };
  grid.side = std::floor(kLargest * scale);
  const float smallest = std::max(1.0f, std::floor(kSmallest * scale));
  while (grid.side > smallest && !fits(grid.side, cells)) grid.side -= 1;
  while (!fits(grid.side, (cells + grid.cells_each - 1) / grid.cells_each) &&
         grid.cells_each < cells) {
    grid.cells_each *= 2;
  }
  grid.columns = static_cast<size_t>(std::max(1.0f, std::floor(width / grid.side)));
  const size_t squares = (cells + grid.cells_each - 1) / grid.cells_each;
  grid.rows = (squares + grid.columns - 1) / grid.columns;
  return grid;
}

int64_t draw_page_map(const char* name, const PageMap& map, ImVec2 size, const PlotTheme& theme) {
  Canvas canvas(name, size, theme);
  const std::vector<LegendEntry> legend = legend_of(map, theme);
  const float below = height_below(legend, canvas.width(), theme);
  const float height = std::max(1.0f, canvas.max().y - canvas.min().y - below);
  const PageGrid grid = page_grid(map.cells.size(), canvas.width(), height, theme.scale);
  const float gap = grid.side >= 4 * theme.scale ? std::max(1.0f, std::floor(theme.scale)) : 0;

  const size_t squares = (map.cells.size() + grid.cells_each - 1) / grid.cells_each;
  const auto state_of = [&](size_t square) {
    const size_t first = square * grid.cells_each;
    const size_t end = std::min(first + grid.cells_each, map.cells.size());
    uint8_t state = map.cells[first];
    for (size_t i = first + 1; i < end; ++i) state = std::max(state, map.cells[i]);
    return state;
  };
  for (size_t row = 0; row < grid.rows; ++row) {
    const float y = canvas.min().y + static_cast<float>(row) * grid.side;
    const size_t end = std::min((row + 1) * grid.columns, squares);
    for (size_t i = row * grid.columns; i < end;) {
      const uint8_t state = state_of(i);
      size_t next = i + 1;
      // Squares without gaps are drawn as one rectangle.
      while (gap == 0 && next < end && state_of(next) == state) ++next;
      if (state < map.states.size()) {
        const float x = canvas.min().x + static_cast<float>(i - row * grid.columns) * grid.side;
        const float width = static_cast<float>(next - i) * grid.side - gap;
        canvas.rectangle({x, y}, {x + width, y + grid.side - gap}, legend[state].colour);
      }
      i = next;
    }
  }
  draw_legend(canvas, {canvas.min().x, canvas.max().y - below + canvas.px(4)}, legend, theme);

  const ImVec2 at(canvas.pointer().x - canvas.min().x, canvas.pointer().y - canvas.min().y);
  if (!canvas.is_hovered() || at.x < 0 || at.y < 0 || grid.side <= 0) return -1;
  const auto column = static_cast<size_t>(at.x / grid.side);
  const auto row = static_cast<size_t>(at.y / grid.side);
  const size_t cell = (row * grid.columns + column) * grid.cells_each;
  if (column >= grid.columns || cell >= map.cells.size()) return -1;
  const ImVec2 corner(canvas.min().x + static_cast<float>(column) * grid.side,
                      canvas.min().y + static_cast<float>(row) * grid.side);
  canvas.list().AddRect(corner, {corner.x + grid.side - gap, corner.y + grid.side - gap},
                        theme.text, 0, 0, canvas.px(1));
  const uint8_t state = map.cells[cell];
  std::vector<TipLine> tip;
  if (map.describe) {
    tip.push_back({map.describe(cell), state < legend.size() ? legend[state].colour : 0});
  } else if (state < map.states.size()) {
    tip.push_back(
        {std::to_string(cell) + ": " + std::string(map.states[state].name), legend[state].colour});
  }
  if (grid.cells_each > 1) {
    tip.push_back({"One square is " + std::to_string(grid.cells_each) + " cells", 0});
  }
  if (!tip.empty()) show_tip(tip);
  return static_cast<int64_t>(cell);
}

}  // namespace infer::gui
