// Sends spans to a collector of OpenTelemetry, in the background.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/trace/trace_options.h"

namespace infer::server {

struct SpanCounts {
  std::atomic<int64_t> exported{0};
  std::atomic<int64_t> dropped{0};  ///< no room, or the collector did not take them
};

/// Spans wait in a bounded queue, and a thread sends them in batches. If the collector is slow or
/// absent, the queue fills up and later spans are dropped; nobody waits for it.
class TraceExporter {
 public:
  static constexpr size_t kMostWaiting = 2048;
  static constexpr size_t kMostInBatch = 512;

  /// `warn` is told of failures, at most once a minute, on the exporter's thread. options.url is
  /// not empty.
  TraceExporter(TraceOptions options, std::function<void(const std::string&)> warn);
  /// Gives what waits two seconds to be sent, if the collector takes it.
  ~TraceExporter();
  TraceExporter(const TraceExporter&) = delete;
  TraceExporter& operator=(const TraceExporter&) = delete;

  /// Any thread; returns at once.
  void put(std::vector<Span> spans);
  const SpanCounts& counts() const;

 private:
  struct Queue;
  std::shared_ptr<Queue> queue_;  // shared with the thread, which may outlive this
  std::thread thread_;
};

}  // namespace infer::server
