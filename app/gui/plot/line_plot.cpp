#include "gui/plot/line_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gui/plot/axes.h"

namespace infer::gui {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool before(const PlotPoint& point, double time) { return point.time < time; }

AxisRange time_range(const LinePlot& plot) {
  if (plot.begin < plot.end) return {plot.begin, plot.end};
  AxisRange range{std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest()};
  for (const PlotSeries& series : plot.series) {
    if (series.points.empty()) continue;
    range.low = std::min(range.low, series.points.front().time);
    range.high = std::max(range.high, series.points.back().time);
  }
  return range.checked();
}

AxisRange value_range(const LinePlot& plot, AxisRange time) {
  if (plot.low < plot.high) return {plot.low, plot.high};
  double low = 0, high = 0;
  for (const PlotSeries& series : plot.series) {
    auto point = std::lower_bound(series.points.begin(), series.points.end(), time.low, before);
    for (; point != series.points.end() && point->time <= time.high; ++point) {
      if (!std::isfinite(point->value)) continue;
      low = std::min(low, point->value);
      high = std::max(high, point->value);
    }
  }
  // Some air above, so that the highest value does not hide in the frame.
  return AxisRange{low, high + (high - low) * 0.08}.checked();
}

/// Marks of the time axis: how long ago.
Ticks time_ticks(AxisRange time, float width, const PlotTheme& theme) {
  const int most = static_cast<int>(width / (theme.font_size * 6));
  Ticks ticks = nice_ticks(time.low - time.high, 0, std::max(most, 2), Unit::seconds);
  for (size_t i = 0; i < ticks.values.size(); ++i) {
    if (ticks.values[i] == 0) ticks.labels[i] = "now";
    ticks.values[i] += time.high;
  }
  return ticks;
}

void draw_series(Canvas& canvas, const Axes& axes, const std::vector<PlotPoint>& points,
                 ImU32 colour) {
  std::vector<ImVec2> line;
  const auto flush = [&] {
    if (line.size() == 1) canvas.list().AddCircleFilled(line[0], canvas.px(1.5f), colour);
    if (line.size() > 1) {
      canvas.list().AddPolyline(line.data(), static_cast<int>(line.size()), colour, 0,
                                canvas.px(1.5f));
    }
    line.clear();
  };
  for (const PlotPoint& point : points) {
    if (std::isfinite(point.value)) {
      line.push_back({axes.x(point.time), axes.y(point.value)});
    } else {
      flush();
    }
  }
  flush();
}

}  // namespace

std::vector<PlotPoint> thinned(std::span<const PlotPoint> points, double begin, double end,
                               int columns, double longest_gap) {
  std::vector<PlotPoint> thin;
  if (!(begin < end) || columns < 1) return thin;
  auto point = std::lower_bound(points.begin(), points.end(), begin, before);
  // One point to the left and right of the range, so that lines reach its borders.
  if (point != points.begin()) --point;
  const auto gap = [&](double time) {
    if (!thin.empty() && std::isfinite(thin.back().value)) thin.push_back({time, kNaN});
  };
  while (point != points.end()) {
    const double column = std::floor((point->time - begin) / (end - begin) * columns);
    PlotPoint first{0, kNaN}, low, high, last;
    bool gap_after = false;
    double gap_time = 0;
    for (; point != points.end() && !gap_after; ++point) {
      if (std::floor((point->time - begin) / (end - begin) * columns) > column) break;
      if (!std::isfinite(point->value)) {
        gap_after = true;
        gap_time = point->time;
        continue;
      }
      if (!std::isfinite(first.value)) {
        const bool is_far =
            longest_gap > 0 && !thin.empty() && point->time - thin.back().time > longest_gap;
        if (is_far) gap(point->time);
        first = low = high = last = *point;
      }
      if (longest_gap > 0 && point->time - last.time > longest_gap) break;
      if (point->value < low.value) low = *point;
      if (point->value > high.value) high = *point;
      last = *point;
    }
    if (std::isfinite(first.value)) {
      thin.push_back(first);
      const bool low_first = low.time < high.time;
      for (const PlotPoint& extreme : {low_first ? low : high, low_first ? high : low, last}) {
        const PlotPoint& previous = thin.back();
        if (extreme.time != previous.time || extreme.value != previous.value) {
          thin.push_back(extreme);
        }
      }
    }
    if (gap_after) gap(gap_time);
    if (!thin.empty() && thin.back().time > end) break;
  }
  return thin;
}

const PlotPoint* point_near(std::span<const PlotPoint> points, double time, double reach) {
  const auto after = std::lower_bound(points.begin(), points.end(), time, before);
  const PlotPoint* nearest = nullptr;
  const auto consider = [&](const PlotPoint& point) {
    const double distance = std::abs(point.time - time);
    if (std::isfinite(point.value) && distance <= reach &&
        (nearest == nullptr || distance < std::abs(nearest->time - time))) {
      nearest = &point;
    }
  };
  if (after != points.begin()) consider(*(after - 1));
  if (after != points.end()) consider(*after);
  return nearest;
}

double draw_line_plot(const char* name, const LinePlot& plot, ImVec2 size, const PlotTheme& theme) {
  Canvas canvas(name, size, theme);
  canvas.rectangle(canvas.min(), canvas.max(), theme.background);
  std::vector<LegendEntry> legend;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const PlotSeries& series = plot.series[i];
    std::string text(series.name);
    if (!series.points.empty()) text += " " + format_value(series.points.back().value, plot.unit);
    legend.push_back({std::move(text), theme.series_colour(i, series.colour)});
  }
  const float below = legend_height(legend, canvas.width(), theme);
  const ImVec2 bottom(canvas.max().x, std::max(canvas.max().y - below, canvas.min().y + 2));
  const AxisRange time = time_range(plot);
  const Axes axes(canvas, canvas.min(), bottom, time, time_ticks(time, canvas.width(), theme),
                  value_range(plot, time), plot.unit, theme);
  const float room = axes.max().x - axes.min().x;
  canvas.list().PushClipRect(axes.min(), axes.max(), true);
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const std::vector<PlotPoint> points = thinned(plot.series[i].points, time.low, time.high,
                                                  static_cast<int>(room) + 1, plot.longest_gap);
    draw_series(canvas, axes, points, legend[i].colour);
  }
  canvas.list().PopClipRect();
  draw_legend(canvas, {canvas.min().x, bottom.y}, legend, theme);

  if (!canvas.is_hovered() || !axes.contains(canvas.pointer())) return kNaN;
  const double at = axes.x_at(canvas.pointer().x);
  const double reach =
      std::max(plot.longest_gap, 12.0 * theme.scale * (time.high - time.low) / room);
  std::vector<TipLine> tip{{format_value(time.high - at, Unit::seconds) + " ago", 0}};
  const float x = std::floor(canvas.pointer().x);
  canvas.rectangle({x, axes.min().y}, {x + canvas.px(1), axes.max().y}, theme.pointer);
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const PlotPoint* point = point_near(plot.series[i].points, at, reach);
    if (point == nullptr) continue;
    canvas.list().AddCircleFilled({axes.x(point->time), axes.y(point->value)}, canvas.px(3),
                                  legend[i].colour);
    tip.push_back({std::string(plot.series[i].name) + ": " + format_value(point->value, plot.unit),
                   legend[i].colour});
  }
  show_tip(tip);
  return at;
}

}  // namespace infer::gui
