// JSON texts from outside. For .cpp files, which include nlohmann/json.hpp themselves.
#pragma once

#include <optional>
#include <string_view>

namespace infer::hub {

/// A JSON text of at most `most` levels. Nothing if it is something else. The library copies and
/// prints values by recursion: deep ones would use up the stack.
template <typename Json>
std::optional<Json> parse_bounded(std::string_view text, int most) {
  bool deep = false;
  Json parsed = Json::parse(
      text,
      [&deep, most](int depth, typename Json::parse_event_t, const Json&) {
        deep = deep || depth > most;
        return !deep;
      },
      false);
  if (deep || parsed.is_discarded()) return std::nullopt;
  return parsed;
}

}  // namespace infer::hub
