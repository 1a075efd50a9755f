// Benchmark, selftest, quantising, converting and importance matrices, as in the terminal.
#pragma once

#include <string>

#include "gui/panes/replace_guard.h"
#include "gui/state/job_state.h"
#include "gui/state/model_state.h"

namespace infer::gui {

class ToolsPane {
 public:
  ToolsPane(JobState& jobs, const ModelState& models) : jobs_(jobs), models_(models) {}
  void draw();

 private:
  enum Tool : size_t { kBench, kSelftest, kQuantize, kConvert, kImportance };
  void draw_bench();
  void draw_selftest();
  void draw_quantize();
  void draw_convert();
  void draw_importance();
  void draw_running();
  void draw_report();
  void draw_file(const char* name, const char* label, std::string& path, const char* hint);
  /// `output`: a file that is written; empty: none. What is there is replaced if the user says so.
  bool draw_start(const char* label, bool ready, const std::string& output = {});

  JobState& jobs_;
  const ModelState& models_;
  size_t tool_ = kBench;
  std::string input_, output_, text_, importance_;
  size_t type_ = 0;
  size_t convert_type_ = 0;
  double prompt_ = 256, tokens_ = 32, repeats_ = 3;
  bool requantize_ = false;
  ReplaceGuard guard_;
};

}  // namespace infer::gui
