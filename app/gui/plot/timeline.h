// Spans of time in lanes, with zoom and pan: what ran where, and for how long.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gui/host/trace.h"
#include "gui/plot/canvas.h"

namespace infer::gui {

using TimelineSpan = TraceSpan;

struct TimelineLane {
  std::string_view name;
  std::span<const TimelineSpan> spans;  ///< in order of time, not over each other
};

struct Timeline {
  std::span<const TimelineLane> lanes;
  std::span<const std::string_view> names;
  /// Further lines of a span's tooltip; may be empty.
  std::function<std::string(size_t lane, size_t span)> describe;
};

/// What a timeline shows, kept from frame to frame by its owner. Equal bounds: everything.
struct TimelineSight {
  double begin = 0, end = 0;  ///< seconds

  /// Makes the part shown `factor` times as long around `centre`, within [least, most].
  void zoom(double factor, double centre, double least, double most);
  void pan(double seconds) {
    begin += seconds;
    end += seconds;
  }
};

struct TimelineHit {
  int64_t lane = -1, span = -1;
};

/// Height that shows all lanes.
float timeline_height(size_t lanes, const PlotTheme& theme);

/// The spans of a lane that a plot of `columns` pixels needs, as [first, last] of spans that share
/// a pixel. Work and result are bound by the columns, not by the number of spans.
struct SpanGroup {
  size_t first = 0, last = 0;
};
std::vector<SpanGroup> visible_spans(std::span<const TimelineSpan> spans, double begin, double end,
                                     int columns);

/// The wheel zooms around the pointer, a drag pans, a double click shows everything; with the keys
/// + and - or arrows the owner changes `sight` itself. Returns the span under the pointer.
TimelineHit draw_timeline(const char* name, const Timeline& timeline, TimelineSight& sight,
                          ImVec2 size, const PlotTheme& theme);

}  // namespace infer::gui
