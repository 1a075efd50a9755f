#include "gui/panes/operations_view.h"

#include <imgui/imgui.h>

#include <algorithm>
#include <utility>

#include "gui/format.h"
#include "gui/panes/plot_style.h"
#include "gui/theme.h"
#include "gui/ui/ui.h"

namespace infer::gui {
namespace {

/// Operations in the list: the others take next to nothing.
constexpr size_t kMostOperations = 24;

std::string text_of(const BenchOperation& operation) {
  std::string text = operation.name + "  " + percent_text(operation.share);
  if (operation.bound == BenchBound::none) return text;
  return text + ", " + percent_text(operation.fraction) +
         (operation.bound == BenchBound::bandwidth ? " of the memory's speed"
                                                   : " of the arithmetic");
}

}  // namespace

void OperationsView::draw() {
  const ui::Scope scope("operations");
  ui::heading("Time by operation");
  {
    const ui::Disabled disabled(jobs_.is_running());
    if (ui::button("measure", "Measure now")) measure();
  }
  const JobEnded* const last = jobs_.last();
  const auto* const report = last == nullptr ? nullptr : std::get_if<BenchReport>(&last->report);
  if (report == nullptr) return;
  draw_bars(*report);
  draw_trace();
}

void OperationsView::measure() {
  BenchJob job;
  job.models = {models_.loaded()->model->path};
  job.options.load = models_.loaded()->options;
  job.options.load.context = 0;
  job.options.prompt_tokens = {128};
  job.options.generate_tokens = {16};
  job.options.repeats = 1;
  job.options.profile = true;
  job.options.trace = true;
  jobs_.start("Measuring operations", std::move(job));
}

void OperationsView::draw_bars(const BenchReport& report) {
  for (const BenchResult& result : report.results) {
    if (result.profile.empty()) continue;
    const ui::Scope one(result.prefill ? "prompt" : "answer");
    ui::text(result.prefill ? "A prompt" : "An answer");
    ImDrawList& draw = *ImGui::GetWindowDrawList();
    const double most = result.profile.front().share;
    for (size_t i = 0; i < std::min(result.profile.size(), kMostOperations); ++i) {
      const BenchOperation& operation = result.profile[i];
      const ImVec2 at = ImGui::GetCursorScreenPos();
      const float width = ImGui::GetContentRegionAvail().x;
      const auto share = static_cast<float>(most > 0 ? operation.share / most : 0);
      draw.AddRectFilled(at, {at.x + width * share, at.y + ImGui::GetTextLineHeight()},
                         packed(theme().accent, 0.35f), 2 * scale());
      ui::text(text_of(operation), "operation");
    }
  }
}

void OperationsView::draw_trace() {
  const JobEnded& last = *jobs_.last();
  if (last.trace == nullptr) return;
  if (std::exchange(seen_job_, last.job) != last.job) sight_ = {};
  const Trace& trace = *last.trace;
  std::vector<TimelineLane> lanes;
  for (const TraceLane& lane : trace.lanes) lanes.push_back({lane.name, lane.spans});
  const std::vector<std::string_view> names(trace.names.begin(), trace.names.end());
  Timeline timeline;
  timeline.lanes = lanes;
  timeline.names = names;
  ui::text("All threads; the wheel zooms, a drag moves, a double click shows everything");
  const PlotTheme style = plot_style();
  draw_timeline("timeline", timeline, sight_,
                {ImGui::GetContentRegionAvail().x, timeline_height(lanes.size(), style)}, style);
  ui::add_last_item("timeline", "timeline", std::to_string(lanes.size()));
  ui::label("Save it for Perfetto", ImGui::GetFontSize() * 12);
  const bool entered = ui::input_path(
      "trace file", trace_file_,
      {.hint = "path of a new file", .width = -ImGui::GetFontSize() * 5, .enter_ends = true});
  ImGui::SameLine();
  const ui::Disabled disabled(trace_file_.empty());
  const bool pressed = ui::button("save trace", guard_.asks(trace_file_) ? "Replace" : "Save");
  if ((pressed || entered) && !trace_file_.empty() && guard_.may_write(trace_file_)) {
    jobs_.save_trace(trace_file_);
  }
  guard_.draw(trace_file_);
}

}  // namespace infer::gui
