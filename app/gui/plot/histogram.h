// How often values occur: bars of equal width over an axis with a unit.
#pragma once

#include <span>

#include "gui/plot/canvas.h"
#include "gui/plot/units.h"

namespace infer::gui {

struct Histogram {
  std::span<const double> counts;  ///< one for each bar; negative and non-finite ones count as 0
  double low = 0, high = 1;        ///< where the first bar begins and the last one ends
  Unit unit = Unit::count;         ///< of the axis below
  ImU32 colour = 0;                ///< 0: the theme's first
};

/// Draws the bars, axes and a tooltip. Returns the bar under the pointer, -1 if there is none.
int draw_histogram(const char* name, const Histogram& histogram, ImVec2 size,
                   const PlotTheme& theme);

}  // namespace infer::gui
