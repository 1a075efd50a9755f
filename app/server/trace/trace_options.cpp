#include "server/trace/trace_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "hub/curl.h"

namespace infer::server {
namespace {

using Variable = std::function<std::string(const char*)>;

Status wrong(const std::string& what, const char* expected) {
  return {StatusCode::invalid_argument, fmt::format("{}: expected {}", what, expected)};
}

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// %XX resolved. Nothing if that is not well formed, or gives what cannot stand in a header.
std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      unsigned code = 0;
      const auto [end, failed] = std::from_chars(&text[i + 1], &text[i + 1] + 2, code, 16);
      if (failed != std::errc{} || end != &text[i + 1] + 2) return std::nullopt;
      c = static_cast<char>(code);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < ' ' || c == 127) return std::nullopt;
    out += c;
  }
  return out;
}

/// "key=value,key=value", with %XX in the values.
Result<Resource> read_pairs(const std::string& name, std::string_view text) {
  Resource pairs;
  const auto failure = [&] {
    return tl::unexpected(wrong(name, "key=value, separated by commas, with %XX for other bytes"));
  };
  while (!text.empty()) {
    const std::string_view pair = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    if (trimmed(pair).empty()) continue;
    const size_t equals = pair.find('=');
    if (equals == pair.npos) return failure();
    const std::string_view key = trimmed(pair.substr(0, equals));
    auto value = decoded(trimmed(pair.substr(equals + 1)));
    const auto is_name = [](char c) { return c > ' ' && c < 127 && c != ':'; };
    if (key.empty() || !std::ranges::all_of(key, is_name) || !value) return failure();
    pairs.emplace_back(key, *std::move(value));
  }
  return pairs;
}

/// The name and value of OTEL_EXPORTER_OTLP_TRACES_<name>, or of OTEL_EXPORTER_OTLP_<name>.
std::pair<std::string, std::string> exporter_variable(const Variable& variable, const char* name) {
  for (const char* prefix : {"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"}) {
    std::string full = std::string(prefix) + name;
    if (std::string value = variable(full.c_str()); !value.empty()) return {full, value};
  }
  return {};
}

/// The name of the flag or variable that says it, and the URL of the collector's traces.
std::pair<std::string, std::string> find_url(const std::string& flag, const Variable& variable) {
  constexpr const char* kOfTraces = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
  constexpr const char* kOfAll = "OTEL_EXPORTER_OTLP_ENDPOINT";
  std::string name = "--otlp-endpoint", base = flag;
  if (base.empty()) {
    if (std::string url = variable(kOfTraces); !url.empty()) return {kOfTraces, url};
    name = kOfAll;
    base = variable(kOfAll);
  }
  if (base.empty()) return {};
  return {name, base + (base.ends_with('/') ? "v1/traces" : "/v1/traces")};
}

}  // namespace

Result<TraceOptions> trace_options(const std::string& endpoint, const Variable& variable) {
  TraceOptions options;
  const auto [from, url] = find_url(endpoint, variable);
  const bool off =
      variable("OTEL_SDK_DISABLED") == "true" || variable("OTEL_TRACES_EXPORTER") == "none";
  if (url.empty() || (off && endpoint.empty())) return options;
  if (const Status opened = hub::open_curl(); !opened.ok()) {
    return tl::unexpected(Status(opened.code(), from + ": " + opened.message()));
  }
  const bool readable = std::ranges::none_of(url, [](char c) { return c <= ' ' || c == 127; });
  if (!readable || !hub::parse_url("", url)) {
    return tl::unexpected(wrong(from, "a URL such as http://localhost:4318"));
  }
  if (const auto [name, protocol] = exporter_variable(variable, "PROTOCOL"); protocol == "grpc") {
    return tl::unexpected(
        wrong(name, "http/json or http/protobuf: spans are sent by HTTP, most often to port 4318"));
  }
  if (const auto [name, text] = exporter_variable(variable, "TIMEOUT"); !text.empty()) {
    int milliseconds = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, milliseconds);
    if (parsed.ec != std::errc{} || parsed.ptr != end || milliseconds < 1) {
      return tl::unexpected(wrong(name, "a number of milliseconds, at least 1"));
    }
    options.timeout_seconds = milliseconds / 1000.0;
  }
  const auto [name, headers] = exporter_variable(variable, "HEADERS");
  auto pairs = read_pairs(name, headers);
  if (!pairs) return tl::unexpected(pairs.error());
  for (const auto& [key, value] : *pairs) {
    options.headers.push_back(fmt::format("{}: {}", key, value));
  }
  auto resource = read_pairs("OTEL_RESOURCE_ATTRIBUTES", variable("OTEL_RESOURCE_ATTRIBUTES"));
  if (!resource) return tl::unexpected(resource.error());
  options.resource = *std::move(resource);
  const auto is_name = [](const auto& pair) { return pair.first == "service.name"; };
  std::string service = variable("OTEL_SERVICE_NAME");
  if (service.empty() && std::ranges::none_of(options.resource, is_name)) service = "infer";
  if (!service.empty()) {
    std::erase_if(options.resource, is_name);
    options.resource.emplace_back("service.name", std::move(service));
  }
  options.url = url;
  return options;
}

}  // namespace infer::server
