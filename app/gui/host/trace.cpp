#include "gui/host/trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

namespace infer::gui {
namespace {

using Json = nlohmann::json;

constexpr double kMicro = 1e-6;
/// The trace's times have so many seconds of rounding.
constexpr double kRounding = 2e-9;
constexpr double kMostSeconds = 1e9;

/// Threads by process and number.
using Thread = std::pair<int64_t, int64_t>;

int64_t number_of(const Json& event, const char* member) {
  const auto found = event.find(member);
  return found != event.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

double time_of(const Json& event, const char* member) {
  const auto found = event.find(member);
  return found != event.end() && found->is_number() ? found->get<double>() * kMicro : NAN;
}

std::string text_of(const Json& event, const char* member) {
  const auto found = event.find(member);
  return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// Puts spans into lanes so that none is over another: a span within one goes one lane down.
std::vector<TraceLane> lanes_of(const std::string& name, std::vector<TraceSpan> spans) {
  std::ranges::stable_sort(spans, [](const TraceSpan& a, const TraceSpan& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<TraceLane> lanes;
  for (const TraceSpan& span : spans) {
    size_t depth = 0;
    while (depth < lanes.size() && lanes[depth].spans.back().end > span.begin + kRounding) ++depth;
    if (depth == lanes.size()) lanes.push_back({depth == 0 ? name : std::string(), {}});
    lanes[depth].spans.push_back(span);
  }
  return lanes;
}

}  // namespace

Result<Trace> parse_trace(std::string_view json) {
  const Json parsed = Json::parse(json, nullptr, false);
  const auto events = parsed.is_object() ? parsed.find("traceEvents") : parsed.end();
  if (!parsed.is_object() || events == parsed.end() || !events->is_array()) {
    return tl::unexpected(
        Status(StatusCode::bad_file, "trace: expected an object with the array traceEvents"));
  }
  Trace trace;
  std::unordered_map<std::string, uint32_t> numbers;
  std::map<Thread, std::vector<TraceSpan>> threads;
  std::map<Thread, std::string> thread_names;
  for (const Json& event : *events) {
    if (!event.is_object()) continue;
    const std::string kind = text_of(event, "ph");
    const Thread thread{number_of(event, "pid"), number_of(event, "tid")};
    if (kind == "M" && text_of(event, "name") == "thread_name" && event.contains("args")) {
      thread_names[thread] = text_of(event.at("args"), "name");
    }
    if (kind != "X") continue;
    const double begin = time_of(event, "ts");
    const double length = time_of(event, "dur");
    if (!(length >= 0) || !(std::abs(begin) + length < kMostSeconds)) continue;
    const std::string name = text_of(event, "name");
    const auto [at, added] = numbers.try_emplace(name, static_cast<uint32_t>(trace.names.size()));
    if (added) trace.names.push_back(name);
    threads[thread].push_back({begin, begin + length, at->second});
  }
  for (auto& [thread, spans] : threads) {
    const auto named = thread_names.find(thread);
    for (TraceLane& lane :
         lanes_of(named == thread_names.end() ? "" : named->second, std::move(spans))) {
      trace.lanes.push_back(std::move(lane));
    }
  }
  return trace;
}

}  // namespace infer::gui
