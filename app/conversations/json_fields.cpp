#include "conversations/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "conversations/json.h"
#include "conversations/limits.h"
#include "hub/bounded_json.h"

namespace infer::conversations {

void JsonFields::fail(const std::string& at, const std::string& expected) {
  if (!status_.ok()) return;
  status_ = {StatusCode::bad_file,
             fmt::format("{}: {}{}expected {}", file_, at, at.empty() ? "" : ": ", expected)};
}

void JsonFields::fail(const std::string& at, const char* name, const char* expected,
                      const Json& found) {
  fail(at.empty() ? name : fmt::format("{}.{}", at, name),
       fmt::format("{}, found {}", expected, found.type_name()));
}

const Json* JsonFields::member(const Json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string JsonFields::text(const Json& object, const char* name, const std::string& at) {
  const Json* const found = member(object, name);
  if (found == nullptr) return {};
  if (found->is_string()) return found->get<std::string>();
  fail(at, name, "a string", *found);
  return {};
}

int64_t JsonFields::integer(const Json& object, const char* name, const std::string& at) {
  const Json* const found = member(object, name);
  if (found == nullptr) return 0;
  const bool fits = found->is_number_integer() &&
                    (!found->is_number_unsigned() ||
                     found->get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()});
  if (fits) return found->get<int64_t>();
  fail(at, name, "an integer of 64 bits", *found);
  return 0;
}

double JsonFields::number(const Json& object, const char* name, const std::string& at) {
  const Json* const found = member(object, name);
  if (found == nullptr) return 0;
  if (found->is_number() && std::isfinite(found->get<double>())) return found->get<double>();
  fail(at, name, "a number", *found);
  return 0;
}

bool JsonFields::boolean(const Json& object, const char* name, const std::string& at) {
  const Json* const found = member(object, name);
  if (found == nullptr) return false;
  if (found->is_boolean()) return found->get<bool>();
  fail(at, name, "true or false", *found);
  return false;
}

Time JsonFields::time(const Json& object, const char* name, const std::string& at,
                      double per_second) {
  constexpr double kLatest = 253'402'300'800'000;  // the year 10000
  const double milliseconds = number(object, name, at) * (1000 / per_second);
  if (milliseconds >= 0 && milliseconds < kLatest) return static_cast<Time>(milliseconds);
  fail(fmt::format("{}.{}", at, name), "a time from 1970 to 9999");
  return 0;
}

const Json& JsonFields::object(const Json& object, const char* name, const std::string& at) {
  static const Json kEmpty = Json::object();
  const Json* const found = member(object, name);
  if (found == nullptr) return kEmpty;
  if (found->is_object()) return *found;
  fail(at, name, "an object", *found);
  return kEmpty;
}

const Json& JsonFields::array(const Json& object, const char* name, const std::string& at) {
  static const Json kEmpty = Json::array();
  const Json* const found = member(object, name);
  if (found == nullptr) return kEmpty;
  if (found->is_array()) return *found;
  fail(at, name, "an array", *found);
  return kEmpty;
}

bool JsonFields::require_object(const Json& value, const std::string& at) {
  if (!value.is_object()) fail(at, fmt::format("an object, found {}", value.type_name()));
  return value.is_object();
}

Json JsonFields::parse_object(const std::string& text, const std::string& at) {
  std::optional<Json> value = hub::parse_bounded<Json>(text, kMaxJsonDepth);
  // Some programs cut texts in the middle of a character.
  if (!value) value = hub::parse_bounded<Json>(repaired_json(text), kMaxJsonDepth);
  if (!value || !value->is_object()) {
    fail(at, fmt::format("a JSON object of at most {} levels", kMaxJsonDepth));
    return Json::object();
  }
  return std::move(*value);
}

}  // namespace infer::conversations
