#include "server/trace/trace_context.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <random>

namespace infer::server {
namespace {

constexpr size_t kMostState = 512;

bool is_hex(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// Digits that are not all 0.
bool is_trace_part(std::string_view text) {
  return is_hex(text) && text.find_first_not_of('0') != std::string_view::npos;
}

}  // namespace

std::string new_span_id() {
  static std::mutex mutex;
  static std::mt19937_64 numbers{std::random_device{}()};
  const std::lock_guard lock(mutex);
  return fmt::format("{:016x}", std::max<uint64_t>(1, numbers()));
}

std::optional<TraceContext> trace_context(std::string_view parent, std::string_view state) {
  // version, trace, parent and flags: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
  constexpr size_t kSize = 55;
  if (parent.size() < kSize || parent[2] != '-' || parent[35] != '-' || parent[52] != '-') {
    return std::nullopt;
  }
  const std::string_view version = parent.substr(0, 2);
  const std::string_view flags = parent.substr(53, 2);
  if (!is_hex(version) || version == "ff" || !is_hex(flags)) return std::nullopt;
  // Later versions may add fields.
  if (parent.size() > kSize && (version == "00" || parent[kSize] != '-')) return std::nullopt;
  const std::string_view trace = parent.substr(3, 32);
  const std::string_view caller = parent.substr(36, 16);
  if (!is_trace_part(trace) || !is_trace_part(caller)) return std::nullopt;
  const bool recorded = std::string_view("13579bdf").find(flags[1]) != std::string_view::npos;
  if (!recorded) return std::nullopt;
  if (state.size() > kMostState) state = {};
  return TraceContext{std::string(trace), std::string(caller), new_span_id(), std::string(state)};
}

}  // namespace infer::server
