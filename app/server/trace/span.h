// A span of a trace, and the body of the request that exports spans.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/json.h"
#include "server/trace/trace_context.h"

namespace infer::server {

using WallClock = std::chrono::system_clock;

/// A piece of the work for a request, named and timed. It holds nothing of what was asked and
/// answered.
struct Span {
  /// Numbers of OTLP's SpanKind.
  enum class Kind { internal = 1, server = 2 };

  std::string trace_id, span_id, parent_id, state;  ///< as in TraceContext
  std::string name;
  Kind kind = Kind::internal;
  WallClock::time_point start, end;
  /// An object of strings, numbers, true and false, and arrays of strings; null values are left
  /// out.
  Json attributes = Json::object();
  bool failed = false;
};

/// A span within that of the request, with an id of its own.
Span child_of(const TraceContext& context, const std::string& parent_id, std::string name);

/// Attributes of what sends the spans: "service.name" and so on.
using Resource = std::vector<std::pair<std::string, std::string>>;

/// An ExportTraceServiceRequest in JSON (opentelemetry-proto, OTLP/HTTP 1.x).
std::string otlp_request(std::span<const Span> spans, const Resource& resource);

}  // namespace infer::server
