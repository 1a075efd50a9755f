// A horizontal bar of parts with a legend: memory of a device by purpose.
#pragma once

#include <span>
#include <string_view>

#include "gui/plot/canvas.h"
#include "gui/plot/units.h"

namespace infer::gui {

struct BarPart {
  std::string_view name;
  double value = 0;  ///< negative and non-finite values count as 0
  ImU32 colour = 0;  ///< 0: the theme's
};

struct StackedBar {
  std::span<const BarPart> parts;
  double total = 0;  ///< the whole length, e.g. a device's memory; 0: the sum of the parts
  Unit unit = Unit::bytes;
};

/// Height that draw_stacked_bar() takes: the bar and its legend.
float stacked_bar_height(const StackedBar& bar, float width, const PlotTheme& theme);

/// Draws the bar `width` wide. Parts beyond the total are drawn to scale behind a line at the
/// total, in full. Shows a tooltip. Returns the part under the pointer, -1 if there is none.
int draw_stacked_bar(const char* name, const StackedBar& bar, float width, const PlotTheme& theme);

}  // namespace infer::gui
