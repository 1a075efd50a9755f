#include "engine/sample/grammar/schema_values.h"

#include <algorithm>
#include <cmath>

namespace infer {
namespace {

/// The digits of a float that is a whole number of 64 bits; empty for all else.
std::string whole_number(const Json& value) {
  if (!value.is_number_float()) return {};
  const double d = value.get<double>();
  if (std::trunc(d) != d || d < -0x1p63 || d >= 0x1p64) return {};
  return d < 0 ? std::to_string(static_cast<int64_t>(d)) : std::to_string(static_cast<uint64_t>(d));
}

void write(const Json& value, std::string& out) {
  if (value.is_object()) {
    std::vector<const Json::object_t::value_type*> members;
    for (const auto& member : value.get_ref<const Json::object_t&>()) members.push_back(&member);
    std::ranges::sort(members, {},
                      [](const auto* member) { return std::string_view(member->first); });
    out += '{';
    for (const auto* member : members) {
      write(Json(member->first), out);
      out += ':';
      write(member->second, out);
      out += ',';
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (const Json& item : value) {
      write(item, out);
      out += ',';
    }
    out += ']';
  } else if (const auto whole = whole_number(value); !whole.empty()) {
    out += whole;
  } else {
    // Every string that was parsed is valid UTF-8, so this does not throw.
    out += value.dump();
  }
}

}  // namespace

std::string canonical_text(const Json& value) {
  std::string out;
  write(value, out);
  return out;
}

}  // namespace infer
