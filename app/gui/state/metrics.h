// The recent past of the engine, sample by sample, for plots. No drawing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gui/plot/line_plot.h"
#include "infer/infer.hpp"

namespace infer::gui {

class Metrics {
 public:
  /// Time between two samples, in seconds.
  static constexpr double kInterval = 1;
  /// What is kept, in seconds.
  static constexpr double kKept = 600;

  /// Takes a sample if one is due. `now`: seconds of the window's clock.
  bool is_due(double now) const { return now - last_ >= kInterval; }
  void add(double now, const EngineStatistics& statistics, const MemoryReport& memory);
  /// A value of another source, such as the temperature of a GPU.
  void add(double now, const std::string& name, double value);
  void clear();

  double last() const { return last_; }
  /// The samples of a name; empty if there are none.
  const std::vector<PlotPoint>& of(const std::string& name) const;

 private:
  std::map<std::string, std::vector<PlotPoint>> series_;
  double last_ = -kInterval;
};

}  // namespace infer::gui
