#include "gui/plot/timeline.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "gui/plot/axes.h"

namespace infer::gui {
namespace {

constexpr double kShortest = 1e-8;  ///< seconds that can be shown at least

float lane_height(const PlotTheme& theme) { return std::floor(theme.font_size * 1.8f); }

AxisRange extent(const Timeline& timeline) {
  AxisRange range{std::numeric_limits<double>::max(), std::numeric_limits<double>::lowest()};
  for (const TimelineLane& lane : timeline.lanes) {
    if (lane.spans.empty()) continue;
    range.low = std::min(range.low, lane.spans.front().begin);
    range.high = std::max(range.high, lane.spans.back().end);
  }
  if (range.low > range.high) return {0, 1};
  if (range.high - range.low < kShortest) range.high = range.low + kShortest;
  return range.checked();
}

void handle_input(const Canvas& canvas, TimelineSight& sight, AxisRange all, float left,
                  float room) {
  const ImGuiIO& io = ImGui::GetIO();
  const double shown = sight.end - sight.begin;
  if (canvas.is_hovered() && io.MouseWheel != 0) {
    const double centre = sight.begin + (io.MousePos.x - left) / room * shown;
    sight.zoom(std::pow(0.8, io.MouseWheel), centre, kShortest, all.high - all.low);
  }
  if (canvas.is_held() && ImGui::IsMouseDragging(ImGuiMouseButton_Left, 2)) {
    sight.pan(-io.MouseDelta.x / room * shown);
  }
  if (canvas.is_hovered() && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
    sight = {all.low, all.high};
  }
  // At least a part of what there is stays in sight.
  const double length = sight.end - sight.begin;
  sight.begin = std::clamp(sight.begin, all.low - length / 2, all.high - length / 2);
  sight.end = sight.begin + length;
}

Ticks time_ticks(const TimelineSight& sight, AxisRange all, float room, const PlotTheme& theme) {
  const int most = std::max(2, static_cast<int>(room / (theme.font_size * 6)));
  Ticks ticks = nice_ticks(sight.begin - all.low, sight.end - all.low, most, Unit::seconds);
  for (double& value : ticks.values) value += all.low;
  return ticks;
}

}  // namespace

void TimelineSight::zoom(double factor, double centre, double least, double most) {
  const double length = end - begin;
  if (!(length > 0) || !std::isfinite(factor) || factor <= 0) return;
  const double wanted = std::clamp(length * factor, least, std::max(least, most));
  begin = centre - (centre - begin) * wanted / length;
  end = begin + wanted;
}

float timeline_height(size_t lanes, const PlotTheme& theme) {
  return static_cast<float>(lanes) * lane_height(theme) + theme.font_size * 1.8f;
}

std::vector<SpanGroup> visible_spans(std::span<const TimelineSpan> spans, double begin, double end,
                                     int columns) {
  std::vector<SpanGroup> groups;
  if (!(begin < end) || columns < 1) return groups;
  const double pixel = (end - begin) / columns;
  const auto ends_after = [](double time, const TimelineSpan& s) { return time < s.end; };
  auto span = std::upper_bound(spans.begin(), spans.end(), begin, ends_after);
  while (span != spans.end() && span->begin < end) {
    const auto first = static_cast<size_t>(span - spans.begin());
    // All that ends within the same pixel is one group.
    const double pixel_end = begin + (std::floor((span->begin - begin) / pixel) + 1) * pixel;
    auto next = span->end > pixel_end
                    ? span + 1
                    : std::upper_bound(span + 1, spans.end(), pixel_end, ends_after);
    groups.push_back({first, static_cast<size_t>(next - spans.begin()) - 1});
    span = next;
  }
  return groups;
}

TimelineHit draw_timeline(const char* name, const Timeline& timeline, TimelineSight& sight,
                          ImVec2 size, const PlotTheme& theme) {
  Canvas canvas(name, size, theme);
  // The wheel zooms; it does not scroll the window as well.
  ImGui::SetItemUsingMouseWheel();
  canvas.rectangle(canvas.min(), canvas.max(), theme.background);
  const AxisRange all = extent(timeline);
  if (!(sight.begin < sight.end)) sight = {all.low, all.high};

  float labels = 0;
  for (const TimelineLane& lane : timeline.lanes) {
    labels = std::max(labels, canvas.text_width(lane.name));
  }
  labels = std::min(labels + canvas.px(8), canvas.width() / 3);
  const float left = canvas.min().x + labels, room = std::max(1.0f, canvas.max().x - left);
  handle_input(canvas, sight, all, left, room);

  const float lane_side = lane_height(theme);
  const float axis = canvas.max().y - canvas.line_height();
  const auto x_of = [&](double time) {
    const double part = (time - sight.begin) / (sight.end - sight.begin);
    return left + static_cast<float>(std::clamp(part, 0.0, 1.0)) * room;
  };
  const Ticks ticks = time_ticks(sight, all, room, theme);
  float free_from = left;
  for (size_t i = 0; i < ticks.values.size(); ++i) {
    const float x = std::floor(x_of(ticks.values[i]));
    canvas.rectangle({x, canvas.min().y}, {x + canvas.px(1), axis}, theme.grid);
    const float width = canvas.text_width(ticks.labels[i]);
    if (x < free_from || x + width > canvas.max().x) continue;
    canvas.text({x, axis + canvas.px(2)}, ticks.labels[i], theme.faint);
    free_from = x + width + canvas.px(8);
  }

  TimelineHit hit;
  const ImVec2 pointer = canvas.pointer();
  for (size_t lane = 0; lane < timeline.lanes.size(); ++lane) {
    const float top = canvas.min().y + static_cast<float>(lane) * lane_side;
    if (top + lane_side > axis) break;
    const std::span<const TimelineSpan> spans = timeline.lanes[lane].spans;
    canvas.fitting_text({canvas.min().x, top + theme.font_size * 0.3f}, timeline.lanes[lane].name,
                        labels - canvas.px(4), theme.text);
    const float y0 = top + canvas.px(1), y1 = top + lane_side - canvas.px(1);
    for (const SpanGroup& group :
         visible_spans(spans, sight.begin, sight.end, static_cast<int>(room) + 1)) {
      const TimelineSpan& first = spans[group.first];
      const float x0 = x_of(first.begin);
      const float x1 = std::max(x_of(spans[group.last].end), x0 + 1);
      canvas.rectangle({x0, y0}, {x1, y1}, theme.series_colour(first.name, 0));
      if (first.name < timeline.names.size() && x1 - x0 > theme.font_size * 2) {
        canvas.fitting_text({x0 + canvas.px(3), top + theme.font_size * 0.3f},
                            timeline.names[first.name], x1 - x0 - canvas.px(6), theme.background);
      }
      if (canvas.is_hovered() && pointer.y >= y0 && pointer.y < y1 && pointer.x >= x0 &&
          pointer.x < x1) {
        hit = {static_cast<int64_t>(lane), static_cast<int64_t>(group.first)};
        canvas.list().AddRect({x0, y0}, {x1, y1}, theme.text, 0, 0, canvas.px(1));
      }
    }
  }
  if (hit.lane >= 0 && !canvas.is_held()) {
    const auto lane = static_cast<size_t>(hit.lane), at = static_cast<size_t>(hit.span);
    const TimelineSpan& span = timeline.lanes[lane].spans[at];
    std::vector<TipLine> tip;
    if (span.name < timeline.names.size()) {
      tip.push_back({std::string(timeline.names[span.name]), theme.series_colour(span.name, 0)});
    }
    tip.push_back({format_value(span.end - span.begin, Unit::seconds) + " at " +
                       format_value(span.begin - all.low, Unit::seconds),
                   0});
    if (timeline.describe) tip.push_back({timeline.describe(lane, at), 0});
    show_tip(tip);
  }
  return hit;
}

}  // namespace infer::gui
