// Where memory and time go: plots over time, the cache's pages, speed by operation, speculation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gui/host/system_monitor.h"
#include "gui/plot/timeline.h"
#include "gui/state/chat_state.h"
#include "gui/state/job_state.h"
#include "gui/state/metrics.h"
#include "gui/state/model_state.h"

namespace infer::gui {

class InsightPane {
 public:
  InsightPane(EngineHost& engine, ModelState& models, JobState& jobs, Metrics& metrics)
      : engine_(engine), models_(models), jobs_(jobs), metrics_(metrics) {}
  void draw();
  void add(const SystemSample& sample) { latest_ = sample; }

 private:
  void draw_badges(const EngineStatistics& statistics);
  void draw_speed(const EngineStatistics& statistics);
  void draw_memory();
  void draw_cache(const EngineStatistics& statistics);
  void draw_speculation(const EngineStatistics& statistics);
  void draw_latencies(const EngineStatistics& statistics);
  void draw_machine();
  void draw_operations();
  void line_plot(const char* name, const std::vector<std::string>& series, Unit unit, double now);

  EngineHost& engine_;
  ModelState& models_;
  JobState& jobs_;
  Metrics& metrics_;
  std::optional<SystemSample> latest_;
  std::vector<uint8_t> cells_;
  int64_t cache_bytes_ = 0;  ///< as the slider says
  bool resizing_ = false;
};

}  // namespace infer::gui
