#include "server/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace infer::server {
namespace {

constexpr size_t kMostLevels = 100;
/// Of numbers, texts, arrays and so on: a value takes up to some 100 bytes.
constexpr int64_t kMostJsonValues = 1'000'000;
/// Comparisons of names that parsing may take: a second of them. One of long names counts as
/// several.
constexpr int64_t kMostComparisons = int64_t{1} << 27;
constexpr int64_t kBytesCompared = 32;

}  // namespace

std::optional<std::string> json_excess(std::string_view text) {
  std::vector<int64_t> members;  // of each open object or array, so far
  int64_t comparisons = 0;
  int64_t values = 1;
  size_t begin = 0;  // of the last string
  int64_t size = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      if (!quoted) size = static_cast<int64_t>(i - begin);
    } else if (c == '"') {
      quoted = true;
      begin = i;
    } else if (c == '[' || c == '{') {
      if (members.size() == kMostLevels) {
        return fmt::format("it is nested deeper than {} levels", kMostLevels);
      }
      members.push_back(0);
      ++values;
    } else if (c == ',') {
      ++values;
    } else if (c == ']' || c == '}') {
      if (!members.empty()) members.pop_back();
    } else if (c == ':' && !members.empty()) {
      // A name is compared with those before it in its object.
      comparisons += members.back()++ * (1 + size / kBytesCompared);
      if (comparisons > kMostComparisons) return "its objects have too many names";
    }
    if (values > kMostJsonValues) return fmt::format("it has more than {} values", kMostJsonValues);
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
