#include "gui/plot/stacked_bar.h"

#include <algorithm>
#include <cmath>

namespace infer::gui {
namespace {

double clean(double value) { return std::isfinite(value) && value > 0 ? value : 0; }

std::vector<LegendEntry> legend_of(const StackedBar& bar, const PlotTheme& theme) {
  std::vector<LegendEntry> entries;
  for (size_t i = 0; i < bar.parts.size(); ++i) {
    const BarPart& part = bar.parts[i];
    entries.push_back({std::string(part.name) + " " + format_value(clean(part.value), bar.unit),
                       theme.series_colour(i, part.colour)});
  }
  return entries;
}

float bar_height(const PlotTheme& theme) { return std::floor(theme.font_size * 1.7f); }

}  // namespace

float stacked_bar_height(const StackedBar& bar, float width, const PlotTheme& theme) {
  return bar_height(theme) + 6 * theme.scale + legend_height(legend_of(bar, theme), width, theme);
}

int draw_stacked_bar(const char* name, const StackedBar& bar, float width, const PlotTheme& theme) {
  Canvas canvas(name, {width, stacked_bar_height(bar, width, theme)}, theme);
  double sum = 0;
  for (const BarPart& part : bar.parts) sum += clean(part.value);
  const double total = clean(bar.total) > 0 ? bar.total : sum;
  const double length = std::max(sum, total);
  const ImVec2 min = canvas.min();
  const float bottom = min.y + bar_height(theme), round = canvas.px(4);
  canvas.rectangle(min, {canvas.max().x, bottom}, theme.grid, round);

  int hovered = -1;
  double before = 0;
  const auto x_of = [&](double value) {
    return length > 0 ? min.x + static_cast<float>(value / length) * canvas.width() : min.x;
  };
  for (size_t i = 0; i < bar.parts.size(); ++i) {
    const double value = clean(bar.parts[i].value);
    if (value <= 0) continue;
    const float left = x_of(before);
    before += value;
    // A part that is there is seen, however small.
    const float right = std::max(x_of(before), left + canvas.px(1));
    canvas.rectangle({left, min.y}, {right, bottom}, theme.series_colour(i, bar.parts[i].colour));
    const ImVec2 pointer = canvas.pointer();
    if (canvas.is_hovered() && pointer.x >= left && pointer.x < right && pointer.y < bottom) {
      hovered = static_cast<int>(i);
    }
  }
  canvas.list().AddRect(min, {canvas.max().x, bottom}, theme.axis, 0, 0, canvas.px(1));
  if (sum > total * (1 + 1e-9)) {
    const float x = std::floor(x_of(total));
    canvas.rectangle({x - canvas.px(1), min.y - canvas.px(3)},
                     {x + canvas.px(1), bottom + canvas.px(3)}, theme.limit);
  }
  const int named =
      draw_legend(canvas, {min.x, bottom + canvas.px(6)}, legend_of(bar, theme), theme);
  if (hovered < 0) hovered = named;
  if (hovered >= 0) {
    const BarPart& part = bar.parts[static_cast<size_t>(hovered)];
    const double value = clean(part.value);
    std::string text = std::string(part.name) + ": " + format_value(value, bar.unit);
    if (total > 0) text += " (" + format_value(100 * value / total, Unit::percent) + ")";
    show_tip({{text, theme.series_colour(static_cast<size_t>(hovered), part.colour)},
              {"All: " + format_value(sum, bar.unit) + " of " + format_value(total, bar.unit), 0}});
  }
  return hovered;
}

}  // namespace infer::gui
