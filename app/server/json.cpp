#include "server/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
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

bool has_large_integer(std::string_view text) {
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    if (c != '-' && (c < '0' || c > '9')) continue;
    const size_t end = std::min(text.find_first_not_of("+-.0123456789eE", i), text.size());
    const std::string_view number = text.substr(i, end - i);
    i = end - 1;
    if (number.find_first_of(".eE") != std::string_view::npos) continue;
    int64_t negative = 0;
    uint64_t positive = 0;
    const char* last = number.data() + number.size();
    const std::errc failed = c == '-' ? std::from_chars(number.data(), last, negative).ec
                                      : std::from_chars(number.data(), last, positive).ec;
    if (failed == std::errc::result_out_of_range) return true;
  }
  return false;
}

Json parse_json(std::string_view text) {
  if (json_excess(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

std::string write_json(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace infer::server
