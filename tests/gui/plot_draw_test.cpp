// What plots draw and what is under the pointer.
#include <doctest.h>

#include <cmath>

#include "gui/plot/line_plot.h"
#include "gui/plot/page_map.h"
#include "gui/plot/stacked_bar.h"
#include "gui/plot/timeline.h"
#include "tests/gui/imgui_frame.h"

using namespace infer::gui;
using infer::test::ImGuiFrames;

namespace {

constexpr ImU32 colour(unsigned i) { return IM_COL32(10 + i, 200, 10 + i, 255); }

PlotTheme theme_of() {
  PlotTheme theme;
  for (unsigned i = 0; i < theme.series.size(); ++i) theme.series[i] = colour(i);
  theme.limit = IM_COL32(250, 1, 1, 255);
  return theme;
}

constexpr float kNear = 1.5f;  ///< pixels

bool is_near(float a, float b) { return std::abs(a - b) <= kNear; }

}  // namespace

TEST_CASE("a stacked bar shows its parts to scale") {
  ImGuiFrames frames(400, 300);
  const PlotTheme theme = theme_of();
  const BarPart parts[] = {
      {"Weights", 60, colour(50)}, {"KV", 20, colour(51)}, {"None", 0, colour(52)}};
  StackedBar bar{parts, 100, Unit::bytes};
  int hovered = -1;
  const auto draw = [&] { hovered = draw_stacked_bar("bar", bar, 400, theme); };
  ImGui::GetIO().MousePos = {300, 5};
  frames.frame(draw);
  frames.frame(draw);
  CHECK(is_near(ImGuiFrames::extent(colour(51)).max.x, 320));
  CHECK(ImGuiFrames::extent(theme.limit).vertices == 0);
  CHECK_EQ(hovered, 1);
  ImGui::GetIO().MousePos = {350, 5};  // free
  frames.frame(draw);
  frames.frame(draw);
  CHECK_EQ(hovered, -1);
  // More than there is: all of it, and a line at the limit.
  bar.total = 40;
  frames.frame(draw);
  CHECK(is_near(ImGuiFrames::extent(colour(51)).max.x, 400));
  CHECK(is_near(ImGuiFrames::extent(theme.limit).min.x, 200));
  // Nothing at all, and numbers that are none.
  const BarPart odd[] = {{"a", NAN, 0}, {"b", -5, 0}, {"c", INFINITY, 0}};
  bar = {odd, NAN, Unit::bytes};
  frames.frame(draw);
  bar = {{}, 0, Unit::bytes};
  frames.frame(draw);
  CHECK(stacked_bar_height(bar, 400, theme) > 10);
}

TEST_CASE("the height of a legend follows the width") {
  ImGuiFrames frames;
  frames.frame([] {
    const BarPart parts[] = {{"Weights", 1, 0}, {"KV cache", 1, 0}, {"Work space", 1, 0}};
    const StackedBar bar{parts, 0, Unit::bytes};
    CHECK(stacked_bar_height(bar, 100, theme_of()) > stacked_bar_height(bar, 800, theme_of()) + 20);
  });
}

TEST_CASE("a line plot shows values where they belong") {
  ImGuiFrames frames(400, 300);
  const PlotTheme theme = theme_of();
  const std::vector<PlotPoint> points = {{0, 0}, {50, 10}, {100, 5}};
  const PlotSeries series[] = {{"speed", points, colour(60)}};
  LinePlot plot{series, Unit::tokens_per_second, 0, 100, 0, 10, 0};
  double time = 0;
  const auto draw = [&] { time = draw_line_plot("plot", plot, {400, 300}, theme); };
  frames.frame(draw);
  CHECK(std::isnan(time));
  const auto line = ImGuiFrames::extent(colour(60));
  CHECK(line.vertices > 10);
  CHECK(line.max.x <= 402);
  CHECK(line.min.y >= 0);
  ImGui::GetIO().MousePos = {300, 100};
  frames.frame(draw);
  frames.frame(draw);
  CHECK(time > 50);
  CHECK(time < 90);
  // No points, one point, no size.
  plot.series = {};
  frames.frame(draw);
  const std::vector<PlotPoint> one = {{5, 5}};
  const PlotSeries single[] = {{"one", one, colour(61)}};
  plot = {single, Unit::bytes, 0, 0, 0, 0, 1};
  frames.frame(draw);
  CHECK(ImGuiFrames::extent(colour(61)).vertices > 8);
  frames.frame([&] { draw_line_plot("small", plot, {0, 0}, theme); });
}

TEST_CASE("points are thinned, extremes and gaps are kept") {
  std::vector<PlotPoint> points;
  for (int i = 0; i < 100'000; ++i) points.push_back({i * 0.001, std::sin(i * 0.01)});
  points[50'000].value = 1000;
  points[70'000].value = NAN;
  const std::vector<PlotPoint> thin = thinned(points, 0, 100, 200, 0);
  CHECK(thin.size() <= 4 * 200 + 10);
  double highest = 0;
  size_t gaps = 0;
  for (size_t i = 0; i < thin.size(); ++i) {
    if (!std::isfinite(thin[i].value)) ++gaps;
    if (thin[i].value > highest) highest = thin[i].value;
    if (i > 0) REQUIRE(thin[i].time >= thin[i - 1].time);
  }
  CHECK_EQ(highest, 1000);
  CHECK_EQ(gaps, 1);
  // A pause is a gap too.
  const std::vector<PlotPoint> pause = {{0, 1}, {1, 1}, {10, 1}, {11, 1}};
  size_t breaks = 0;
  for (const PlotPoint& point : thinned(pause, 0, 11, 100, 2))
    breaks += !std::isfinite(point.value);
  CHECK_EQ(breaks, 1);
  CHECK(thinned(points, 5, 5, 100, 0).empty());
  CHECK(thinned({}, 0, 1, 100, 0).empty());
}

TEST_CASE("the point next to a time") {
  const std::vector<PlotPoint> points = {{0, 1}, {1, NAN}, {2, 3}};
  CHECK_EQ(point_near(points, 0.4, 1)->value, 1);
  CHECK_EQ(point_near(points, 1.6, 1)->value, 3);
  CHECK(point_near(points, 9, 1) == nullptr);
  CHECK(point_near({}, 0, 1) == nullptr);
}

TEST_CASE("a page map fits any number of cells into its area") {
  for (const size_t cells : {0u, 1u, 10u, 1000u, 50'000u, 3'000'000u}) {
    for (const float width : {1.0f, 50.0f, 600.0f}) {
      const PageGrid grid = page_grid(cells, width, 200, 1);
      CAPTURE(cells);
      CAPTURE(width);
      CHECK(grid.columns * grid.rows * grid.cells_each >= cells);
      CHECK(static_cast<float>(grid.columns) * grid.side <= std::max(width, grid.side));
      if (width > 3) CHECK(static_cast<float>(grid.rows) * grid.side <= 200);
    }
  }
}

TEST_CASE("a page map shows states and finds the cell under the pointer") {
  ImGuiFrames frames(400, 300);
  const PlotTheme theme = theme_of();
  const PageState states[] = {{"free", colour(80)}, {"used", colour(81)}};
  std::vector<uint8_t> cells(100, 0);
  cells[3] = 1;
  PageMap map{cells, states, {}};
  int64_t cell = -1;
  const auto draw = [&] { cell = draw_page_map("map", map, {400, 300}, theme); };
  ImGui::GetIO().MousePos = {16 * 3 + 8, 8};
  frames.frame(draw);
  frames.frame(draw);
  CHECK_EQ(cell, 3);
  CHECK(ImGuiFrames::extent(colour(81)).vertices >= 4);
  // Many cells, and states that are not named.
  cells.assign(1'000'000, 7);
  for (size_t i = 0; i < cells.size(); i += 2) cells[i] = 1;
  map.cells = cells;
  frames.frame(draw);
  CHECK(cell >= 0);
  CHECK(cell < 1'000'000);
  CHECK(ImGuiFrames::extent().vertices < 200'000);
}

TEST_CASE("the spans that a timeline draws are bound by its pixels") {
  std::vector<TimelineSpan> spans;
  for (int i = 0; i < 500'000; ++i) spans.push_back({i * 1e-5, i * 1e-5 + 0.8e-5, 0});
  for (const auto& [begin, end] : {std::pair{0.0, 5.0}, {1.0, 1.001}, {4.9, 9.0}, {-5.0, 50.0}}) {
    const std::vector<SpanGroup> groups = visible_spans(spans, begin, end, 500);
    CHECK(groups.size() <= 1001);
    CHECK(!groups.empty());
    for (size_t i = 0; i < groups.size(); ++i) {
      REQUIRE(groups[i].first <= groups[i].last);
      if (i > 0) REQUIRE_EQ(groups[i].first, groups[i - 1].last + 1);
      REQUIRE(spans[groups[i].first].begin < end);
      REQUIRE(spans[groups[i].last].end > begin);
    }
  }
  CHECK(visible_spans(spans, 6, 7, 500).empty());
  CHECK(visible_spans({}, 0, 1, 500).empty());
}

TEST_CASE("a timeline zooms around the pointer and pans") {
  ImGuiFrames frames(400, 300);
  const PlotTheme theme = theme_of();
  const std::vector<TimelineSpan> spans = {{0, 1, 0}, {2, 3, 1}, {9, 10, 0}};
  const TimelineLane lanes[] = {{"gpu", spans}, {"cpu", {}}};
  const std::string_view names[] = {"matmul", "attention"};
  const Timeline timeline{lanes, names, {}};
  TimelineSight sight;
  TimelineHit hit;
  const auto draw = [&] { hit = draw_timeline("t", timeline, sight, {400, 100}, theme); };
  ImGuiIO& io = ImGui::GetIO();
  io.MousePos = {390, 8};
  frames.frame(draw);
  frames.frame(draw);
  CHECK_EQ(sight.begin, 0);
  CHECK_EQ(sight.end, 10);
  CHECK_EQ(hit.lane, 0);
  CHECK_EQ(hit.span, 2);
  io.MouseWheel = 4;
  frames.frame(draw);
  io.MouseWheel = 0;
  CHECK(sight.end - sight.begin < 5);
  CHECK(sight.end > 9);
  const double begin = sight.begin;
  frames.drag({300, 8}, {350, 8}, draw);
  CHECK(sight.begin < begin);
  frames.click({300, 8}, 2, draw);
  CHECK_EQ(sight.begin, 0);
  CHECK_EQ(sight.end, 10);
  sight.zoom(1e-30, 5, 1e-8, 10);
  CHECK(sight.end - sight.begin >= 0.99e-8);
  sight.zoom(1e30, 5, 1e-8, 10);
  CHECK(sight.end - sight.begin <= 10.001);
  sight.zoom(NAN, 5, 1e-8, 10);
  CHECK(std::isfinite(sight.begin));
  CHECK(timeline_height(2, theme) > timeline_height(1, theme));
}
