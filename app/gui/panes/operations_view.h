// Which operations take the time of a step: as bars beside what the machine could do, and as a
// timeline of all threads. Measured when asked for, by a short benchmark.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gui/panes/replace_guard.h"
#include "gui/plot/timeline.h"
#include "gui/state/job_state.h"
#include "gui/state/model_state.h"

namespace infer::gui {

class OperationsView {
 public:
  OperationsView(ModelState& models, JobState& jobs) : models_(models), jobs_(jobs) {}
  /// A model is loaded.
  void draw();

 private:
  void measure();
  void draw_bars(const BenchReport& report);
  void draw_trace();

  ModelState& models_;
  JobState& jobs_;
  std::string trace_file_;
  ReplaceGuard guard_;
  TimelineSight sight_;
  int64_t seen_job_ = 0;
};

}  // namespace infer::gui
