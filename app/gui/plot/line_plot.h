// Values over time: several series, gaps, the values under the pointer.
#pragma once

#include <span>
#include <string_view>

#include "gui/plot/canvas.h"
#include "gui/plot/units.h"

namespace infer::gui {

struct PlotPoint {
  double time = 0;   ///< seconds
  double value = 0;  ///< not finite: a gap
};

struct PlotSeries {
  std::string_view name;
  std::span<const PlotPoint> points;  ///< in order of time
  ImU32 colour = 0;                   ///< 0: the theme's
};

struct LinePlot {
  std::span<const PlotSeries> series;
  Unit unit = Unit::count;
  double begin = 0, end = 0;  ///< seconds; the axis shows times before `end`. Equal: all points
  double low = 0, high = 0;   ///< of the y axis; equal: from 0 (or the lowest value) to the highest
  double longest_gap = 0;     ///< seconds; points further apart are not joined. 0: all are
};

/// The points of a series that a plot of `columns` pixels needs: at most four for a column (first,
/// lowest, highest, last), and the gaps. For tests, and used by draw_line_plot().
std::vector<PlotPoint> thinned(std::span<const PlotPoint> points, double begin, double end,
                               int columns, double longest_gap);

/// The point next to `time`, null if there is none within `reach` seconds.
const PlotPoint* point_near(std::span<const PlotPoint> points, double time, double reach);

/// Draws axes, lines, legend and, under the pointer, a tooltip with the value of each series.
/// Returns the time under the pointer, NaN if it is elsewhere.
double draw_line_plot(const char* name, const LinePlot& plot, ImVec2 size, const PlotTheme& theme);

}  // namespace infer::gui
