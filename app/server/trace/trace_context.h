// The trace that a request belongs to: W3C Trace Context, https://www.w3.org/TR/trace-context/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace infer::server {

/// Of a request whose caller wants it recorded. Ids are lower-case hexadecimal digits.
struct TraceContext {
  std::string trace_id;   ///< 32 digits
  std::string caller_id;  ///< 16: the caller's span
  std::string span_id;    ///< 16: the span of the request, a new one
  std::string state;      ///< the header tracestate; empty if it is longer than 512 bytes
};

/// What the two headers say. Nothing if `parent` is no traceparent, or if the caller does not
/// record the trace.
std::optional<TraceContext> trace_context(std::string_view parent, std::string_view state);

/// 16 digits. Any thread.
std::string new_span_id();

}  // namespace infer::server
