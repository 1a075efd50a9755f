#include "server/trace/span.h"

#include "infer/infer.hpp"

namespace infer::server {
namespace {

/// 64-bit numbers are strings in OTLP's JSON.
std::string nanoseconds(WallClock::time_point time) {
  return std::to_string(
      std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
}

/// An AnyValue.
Json any_value(const Json& value) {
  if (value.is_boolean()) return {{"boolValue", value}};
  if (value.is_number_integer()) return {{"intValue", std::to_string(value.get<int64_t>())}};
  if (value.is_number()) return {{"doubleValue", value}};
  if (!value.is_array()) return {{"stringValue", value}};
  Json values = Json::array();
  for (const Json& each : value) values.push_back(any_value(each));
  return {{"arrayValue", {{"values", std::move(values)}}}};
}

Json key_value(const std::string& key, const Json& value) {
  return {{"key", key}, {"value", any_value(value)}};
}

Json span_json(const Span& span) {
  Json json = {{"traceId", span.trace_id}, {"spanId", span.span_id}};
  if (!span.state.empty()) json["traceState"] = span.state;
  json["parentSpanId"] = span.parent_id;
  json["name"] = span.name;
  json["kind"] = static_cast<int>(span.kind);
  json["startTimeUnixNano"] = nanoseconds(span.start);
  json["endTimeUnixNano"] = nanoseconds(std::max(span.start, span.end));
  Json attributes = Json::array();
  for (const auto& [key, value] : span.attributes.items()) {
    if (!value.is_null()) attributes.push_back(key_value(key, value));
  }
  json["attributes"] = std::move(attributes);
  constexpr int kError = 2;  // of StatusCode
  json["status"] = span.failed ? Json{{"code", kError}} : Json::object();
  return json;
}

}  // namespace

Span child_of(const TraceContext& context, const std::string& parent_id, std::string name) {
  Span span;
  span.trace_id = context.trace_id;
  span.span_id = new_span_id();
  span.parent_id = parent_id;
  span.state = context.state;
  span.name = std::move(name);
  return span;
}

std::string otlp_request(std::span<const Span> spans, const Resource& resource) {
  Json attributes = Json::array();
  for (const auto& [key, value] : resource) attributes.push_back(key_value(key, value));
  Json all = Json::array();
  for (const Span& span : spans) all.push_back(span_json(span));
  Json scope = {{"scope", {{"name", "infer"}, {"version", version()}}}, {"spans", std::move(all)}};
  Json from = {{"resource", {{"attributes", std::move(attributes)}}},
               {"scopeSpans", Json::array({std::move(scope)})}};
  return write_json({{"resourceSpans", Json::array({std::move(from)})}});
}

}  // namespace infer::server
