#include "gui/state/metrics.h"

#include <algorithm>

namespace infer::gui {

void Metrics::add(double now, const std::string& name, double value) {
  std::vector<PlotPoint>& points = series_[name];
  points.push_back({now, value});
  // Not with every sample: what is old goes away by halves.
  if (points.front().time < now - 2 * kKept) {
    const auto first = std::ranges::find_if(
        points, [now](const PlotPoint& point) { return point.time >= now - kKept; });
    points.erase(points.begin(), first);
  }
}

void Metrics::add(double now, const EngineStatistics& s, const MemoryReport& memory) {
  last_ = now;
  add(now, "prompt", s.prompt_tokens_per_s);
  add(now, "answer", s.generated_tokens_per_s);
  add(now, "weights", static_cast<double>(memory.weights));
  add(now, "keys and values", static_cast<double>(memory.kv));
  add(now, "work space", static_cast<double>(memory.activations + memory.scratch));
  add(now, "running", static_cast<double>(s.calls_running));
  add(now, "waiting", static_cast<double>(s.calls_waiting));
}

void Metrics::clear() { series_.clear(); }

const std::vector<PlotPoint>& Metrics::of(const std::string& name) const {
  static const std::vector<PlotPoint> none;
  const auto found = series_.find(name);
  return found == series_.end() ? none : found->second;
}

}  // namespace infer::gui
