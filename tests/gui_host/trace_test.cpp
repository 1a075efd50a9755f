// Traces of benchmarks as lanes of spans.
#include "gui/host/trace.h"

#include <doctest.h>

#include <string>

using namespace infer;
using namespace infer::gui;

namespace {

std::string trace_of(const std::string& events) { return "{\"traceEvents\":[" + events + "]}"; }

std::string span(const char* name, int thread, const char* begin, const char* length) {
  return std::string("{\"ph\":\"X\",\"name\":\"") + name +
         "\",\"pid\":0,\"tid\":" + std::to_string(thread) + ",\"ts\":" + begin +
         ",\"dur\":" + length + "}";
}

}  // namespace

TEST_CASE("trace: threads are lanes, and what lies within a span is a lane below") {
  const Trace trace =
      parse_trace(
          trace_of(R"({"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"one"}},)" +
                   span("b", 0, "10", "5") + "," + span("step", 0, "0", "20") + "," +
                   span("a", 0, "0", "10") + "," + span("x", 1, "3", "4")))
          .value();
  REQUIRE(trace.lanes.size() == 3);
  CHECK(trace.lanes[0].spans.size() == 1);
  CHECK(trace.names[trace.lanes[0].spans[0].name] == "step");
  REQUIRE(trace.lanes[1].spans.size() == 2);
  CHECK(trace.names[trace.lanes[1].spans[0].name] == "a");
  CHECK(trace.names[trace.lanes[1].spans[1].name] == "b");
  CHECK(trace.lanes[1].spans[1].end == doctest::Approx(15e-6));
  CHECK(trace.lanes[2].name == "one");
}

TEST_CASE("trace: spans of one lane are never over each other") {
  std::string events;
  for (int i = 0; i < 300; ++i) {
    events += (i == 0 ? "" : ",") +
              span("s", i % 3, std::to_string(i * 7 % 50).c_str(), std::to_string(i % 9).c_str());
  }
  const Trace trace = parse_trace(trace_of(events)).value();
  size_t count = 0;
  for (const TraceLane& lane : trace.lanes) {
    count += lane.spans.size();
    for (size_t i = 1; i < lane.spans.size(); ++i) {
      CHECK(lane.spans[i].begin > lane.spans[i - 1].end - 1e-8);
    }
  }
  CHECK(count == 300);
}

TEST_CASE("trace: what is none, and events that are odd") {
  for (const char* text : {"", "[]", "{}", "{\"traceEvents\":3}", "nothing"}) {
    CHECK_FALSE(parse_trace(text).has_value());
  }
  const Trace trace =
      parse_trace(trace_of("3,{},{\"ph\":\"X\"},{\"ph\":7,\"ts\":\"now\"}," +
                           span("late", 0, "1e308", "1e308") + "," + span("back", 0, "5", "-3") +
                           "," + span("good", 0, "1", "2")))
          .value();
  REQUIRE(trace.lanes.size() == 1);
  CHECK(trace.lanes[0].spans.size() == 1);
}
