#include "gui/plot/axes.h"

#include <algorithm>
#include <cmath>

namespace infer::gui {

AxisRange AxisRange::checked() const {
  if (!std::isfinite(low) || !std::isfinite(high) || !std::isfinite(high - low)) return {0, 1};
  return high > low ? *this : AxisRange{low, low + std::max(1.0, std::abs(low) * 1e-6)};
}

Axes::Axes(Canvas& canvas, ImVec2 min, ImVec2 max, AxisRange x, const Ticks& x_ticks, AxisRange y,
           Unit y_unit, const PlotTheme& theme)
    : min_(min), max_(max), x_(x.checked()), y_(y.checked()) {
  const float line = canvas.line_height();
  const int rows = std::max(2, static_cast<int>((max.y - min.y) / (2.2f * line)));
  const Ticks y_ticks = nice_ticks(y_.low, y_.high, rows, y_unit);
  float labels = 0;
  for (const std::string& label : y_ticks.labels) {
    labels = std::max(labels, canvas.text_width(label));
  }
  const float gap = canvas.px(6);
  min_.x = std::min(min.x + labels + gap, max.x - 1);
  min_.y = std::min(min.y + line / 2, max.y - 1);
  max_.y = std::max(max.y - line, min_.y + 1);
  const float stroke = std::max(1.0f, std::floor(theme.scale));
  for (size_t i = 0; i < y_ticks.values.size(); ++i) {
    const float at = std::floor(this->y(y_ticks.values[i]));
    canvas.rectangle({min_.x, at}, {max_.x, at + stroke}, theme.grid);
    const float width = canvas.text_width(y_ticks.labels[i]);
    canvas.text({min_.x - gap - width, at - theme.font_size * 0.55f}, y_ticks.labels[i],
                theme.faint);
  }
  float free_from = min.x;
  for (size_t i = 0; i < x_ticks.values.size(); ++i) {
    if (x_ticks.values[i] < x_.low || x_ticks.values[i] > x_.high) continue;
    const float at = std::floor(this->x(x_ticks.values[i]));
    canvas.rectangle({at, min_.y}, {at + stroke, max_.y}, theme.grid);
    // A label without room is left out.
    const float width = canvas.text_width(x_ticks.labels[i]);
    // Not below the labels of the other axis, which reach lower than its line.
    const float left = std::clamp(at - width / 2, min_.x, std::max(min_.x, max.x - width));
    if (left < free_from || width > max.x - min.x) continue;
    canvas.text({left, max_.y + canvas.px(2)}, x_ticks.labels[i], theme.faint);
    free_from = left + width + gap;
  }
  canvas.rectangle({min_.x, max_.y - stroke}, {max_.x, max_.y}, theme.axis);
  canvas.rectangle({min_.x, min_.y}, {min_.x + stroke, max_.y}, theme.axis);
}

float Axes::x(double value) const {
  const double part = (value - x_.low) / (x_.high - x_.low);
  return min_.x + static_cast<float>(std::clamp(part, -1.0, 2.0)) * (max_.x - min_.x);
}

float Axes::y(double value) const {
  const double part = (value - y_.low) / (y_.high - y_.low);
  return max_.y - static_cast<float>(std::clamp(part, 0.0, 1.0)) * (max_.y - min_.y);
}

double Axes::x_at(float pixel) const {
  return x_.low + (pixel - min_.x) / (max_.x - min_.x) * (x_.high - x_.low);
}

bool Axes::contains(ImVec2 point) const {
  return point.x >= min_.x && point.x <= max_.x && point.y >= min_.y && point.y <= max_.y;
}

}  // namespace infer::gui
