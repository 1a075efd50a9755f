// What ran where and when: the trace of a benchmark.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "infer/status.hpp"

namespace infer::gui {

struct TraceSpan {
  double begin = 0, end = 0;  ///< seconds
  uint32_t name = 0;          ///< index in Trace::names
};

/// A thread, or what its steps consist of.
struct TraceLane {
  std::string name;
  std::vector<TraceSpan> spans;  ///< in order of time, not over each other
};

struct Trace {
  std::vector<std::string> names;
  std::vector<TraceLane> lanes;
};

/// Reads BenchReport::trace. Spans within others have a lane of their own, below that of the
/// others. bad_file: it is not JSON in Chrome's trace event format.
Result<Trace> parse_trace(std::string_view json);

}  // namespace infer::gui
