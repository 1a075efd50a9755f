// Where memory and time go: plots over time, the cache's pages, speed by operation, speculation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gui/host/system_monitor.h"
#include "gui/panes/operations_view.h"
#include "gui/state/chat_state.h"
#include "gui/state/metrics.h"
#include "gui/state/model_state.h"

namespace infer::gui {

class InsightPane {
 public:
  InsightPane(EngineHost& engine, ModelState& models, ChatState& chat, JobState& jobs,
              Metrics& metrics)
      : engine_(engine),
        models_(models),
        chat_(chat),
        metrics_(metrics),
        operations_(models, jobs) {}
  void draw();
  void add(const SystemSample& sample);
  void see(const EngineEvent& event);

 private:
  void draw_badges(const EngineStatistics& statistics);
  void draw_speed(const EngineStatistics& statistics);
  void draw_memory();
  void draw_cache(const EngineStatistics& statistics);
  void draw_speculation();
  void draw_latencies(const EngineStatistics& statistics);
  void draw_machine();
  void line_plot(const char* name, const std::vector<std::string>& series, Unit unit, double now);

  EngineHost& engine_;
  ModelState& models_;
  ChatState& chat_;
  Metrics& metrics_;
  OperationsView operations_;
  std::optional<SystemSample> latest_;
  int64_t tokens_ = 0;                 ///< generated until the latest sample
  std::optional<double> joules_each_;  ///< for a generated token, between the last two samples
  SpeculationStatistics speculation_;  ///< of all answers since the model was loaded
  std::vector<uint8_t> cells_;
  int64_t cache_bytes_ = 0;  ///< as the slider says
  bool resizing_ = false;
};

}  // namespace infer::gui
