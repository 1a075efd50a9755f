// The frame of a plot: axes with marks and grid, and the way from values to pixels.
#pragma once

#include "gui/plot/canvas.h"
#include "gui/plot/units.h"

namespace infer::gui {

struct AxisRange {
  double low = 0, high = 1;

  /// Never empty: a range without length or with a bound that is not finite becomes one of
  /// length 1.
  AxisRange checked() const;
};

class Axes {
 public:
  /// Draws axes and grid within [min, max] of the canvas. `x_labels`: those of `x_ticks`.
  Axes(Canvas& canvas, ImVec2 min, ImVec2 max, AxisRange x, const Ticks& x_ticks, AxisRange y,
       Unit y_unit, const PlotTheme& theme);

  float x(double value) const;
  float y(double value) const;
  double x_at(float pixel) const;
  ImVec2 min() const { return min_; }  ///< of the plotted area
  ImVec2 max() const { return max_; }
  bool contains(ImVec2 point) const;

 private:
  ImVec2 min_, max_;
  AxisRange x_, y_;
};

}  // namespace infer::gui
