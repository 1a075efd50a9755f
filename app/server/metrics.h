// What the server counts besides the engine's own statistics.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/models/model.h"
#include "server/trace/trace_exporter.h"

namespace infer::server {

/// A model and, if it is loaded, what it does.
struct MeasuredModel {
  std::string name;
  std::shared_ptr<ServedModel> model;  ///< null: not loaded
};

class Metrics {
 public:
  /// Any thread.
  void count_request(const std::string& path, int status);
  void count_unknown_fields(int64_t count) { unknown_fields_ += count; }

  /// In the text format of Prometheus. `spans`: null without traces.
  std::string text(const std::vector<MeasuredModel>& models, const SpanCounts* spans) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> requests_;
  std::atomic<int64_t> unknown_fields_{0};
};

}  // namespace infer::server
