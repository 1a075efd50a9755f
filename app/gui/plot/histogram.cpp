#include "gui/plot/histogram.h"

#include <algorithm>
#include <cmath>

#include "gui/plot/axes.h"

namespace infer::gui {

int draw_histogram(const char* name, const Histogram& histogram, ImVec2 size,
                   const PlotTheme& theme) {
  Canvas canvas(name, size, theme);
  canvas.rectangle(canvas.min(), canvas.max(), theme.background);
  const auto clean = [](double count) { return std::isfinite(count) && count > 0 ? count : 0; };
  double sum = 0, highest = 0;
  for (const double count : histogram.counts) {
    sum += clean(count);
    highest = std::max(highest, clean(count));
  }
  const AxisRange x = AxisRange{histogram.low, histogram.high}.checked();
  const int marks = static_cast<int>(canvas.width() / (theme.font_size * 6));
  const Axes axes(canvas, canvas.min(), canvas.max(), x,
                  nice_ticks(x.low, x.high, std::max(marks, 2), histogram.unit),
                  AxisRange{0, highest * 1.05}, Unit::count, theme);
  const size_t bars = histogram.counts.size();
  if (bars == 0) return -1;
  const auto edge = [&](size_t i) {
    return x.low + (x.high - x.low) * static_cast<double>(i) / static_cast<double>(bars);
  };
  int hovered = -1;
  if (canvas.is_hovered() && axes.contains(canvas.pointer())) {
    const double at = (axes.x_at(canvas.pointer().x) - x.low) / (x.high - x.low);
    hovered =
        std::clamp(static_cast<int>(at * static_cast<double>(bars)), 0, static_cast<int>(bars) - 1);
  }
  const ImU32 colour = theme.series_colour(0, histogram.colour);
  const float gap = canvas.px(1);
  // Bars narrower than a pixel share one: the highest of them is drawn.
  const size_t step =
      std::max<size_t>(1, bars / static_cast<size_t>(std::max(1.0f, axes.max().x - axes.min().x)));
  for (size_t i = 0; i < bars; i += step) {
    const size_t end = std::min(i + step, bars);
    double count = 0;
    for (size_t j = i; j < end; ++j) count = std::max(count, clean(histogram.counts[j]));
    if (count <= 0) continue;
    const float left = axes.x(edge(i)), right = axes.x(edge(end));
    const bool has_gap = right - left > 3 * gap;
    canvas.rectangle({has_gap ? left + gap : left, std::min(axes.y(count), axes.max().y - 1)},
                     {std::max(right, left + 1), axes.max().y}, colour);
  }
  if (hovered >= 0) {
    const auto i = static_cast<size_t>(hovered);
    const double count = clean(histogram.counts[i]);
    canvas.rectangle({axes.x(edge(i)), axes.min().y}, {axes.x(edge(i + 1)), axes.max().y},
                     theme.grid);
    std::string text = format_value(count, Unit::count);
    if (sum > 0) text += " (" + format_value(100 * count / sum, Unit::percent) + ")";
    show_tip({{format_value(edge(i), histogram.unit) + " to " +
                   format_value(edge(i + 1), histogram.unit),
               0},
              {text, colour}});
  }
  return hovered;
}

}  // namespace infer::gui
