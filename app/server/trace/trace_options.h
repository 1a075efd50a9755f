// Where spans go: a flag, and the environment variables of OpenTelemetry.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "infer/status.hpp"
#include "server/trace/span.h"

namespace infer::server {

struct TraceOptions {
  std::string url;                   ///< of the collector: ".../v1/traces"; empty: no traces
  std::vector<std::string> headers;  ///< "Name: value", sent with every batch
  Resource resource;
  double timeout_seconds = 10;  ///< for a batch
};

/// `endpoint`: a base URL that comes before those of the environment; may be empty. `variable`: the
/// value of a variable, empty if it is not set. Of the environment these count:
/// OTEL_EXPORTER_OTLP_[TRACES_]ENDPOINT, _HEADERS, _TIMEOUT and _PROTOCOL, OTEL_SERVICE_NAME,
/// OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_EXPORTER and OTEL_SDK_DISABLED, as in OpenTelemetry's
/// specification. invalid_argument: the message names the variable or the flag; io: no libcurl.
Result<TraceOptions> trace_options(const std::string& endpoint,
                                   const std::function<std::string(const char*)>& variable);

}  // namespace infer::server
