#include "server/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace infer::server {
namespace {

constexpr size_t kMostLevels = 100;
/// Comparisons of names that parsing may take: a second of them.
constexpr int64_t kMostComparisons = int64_t{1} << 27;

}  // namespace

std::optional<std::string> json_excess(std::string_view text) {
  std::vector<int64_t> members;  // of each open object or array, so far
  int64_t comparisons = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (members.size() == kMostLevels) {
        return fmt::format("it is nested deeper than {} levels", kMostLevels);
      }
      members.push_back(0);
    } else if (c == ']' || c == '}') {
      if (!members.empty()) members.pop_back();
    } else if (c == ':' && !members.empty()) {
      // A name is compared with those before it in its object.
      comparisons += members.back()++;
      if (comparisons > kMostComparisons) return "its objects have too many names";
    }
  }
  return std::nullopt;
}

Json parse_json(std::string_view text) {
  if (json_excess(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

std::string write_json(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace infer::server
