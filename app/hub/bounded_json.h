// JSON texts from outside. For .cpp files, which include nlohmann/json.hpp themselves.
#pragma once

#include <optional>
#include <string_view>

namespace infer::hub {

/// Whether the text has more levels of arrays and objects than `most`.
inline bool is_deeper(std::string_view json, int most) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

/// A JSON text of at most `most` levels. Nothing if it is something else. The library copies and
/// prints values by recursion: deep ones would use up the stack. Its parser could tell the depth to
/// a callback, but with one it takes quadratic time for many values.
template <typename Json>
std::optional<Json> parse_bounded(std::string_view text, int most) {
  if (is_deeper(text, most)) return std::nullopt;
  Json parsed = Json::parse(text, nullptr, false);
  if (parsed.is_discarded()) return std::nullopt;
  return parsed;
}

}  // namespace infer::hub
