#include "server/api/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace infer::server {

Json read_object(const std::string& body) {
  if (const auto excess = json_excess(body)) throw Problem(400, "the body: " + *excess);
  Json json;
  try {
    json = Json::parse(body);
  } catch (const Json::exception& failure) {
    // Without the name of the exception: "[json.exception.parse_error.101] ".
    std::string_view why = failure.what();
    why.remove_prefix(why.starts_with('[') ? std::min(why.size(), why.find("] ") + 2) : 0);
    throw Problem(400, fmt::format("the body is not JSON: {}", why));
  }
  if (!json.is_object()) throw Problem(400, "the body: expected a JSON object");
  return json;
}

void check_json(const Fields& fields, const char* name, std::string_view text) {
  if (const auto excess = json_excess(text)) {
    fields.wrong(name, "JSON within the limits: " + *excess);
  }
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) {
    throw Problem(400, fmt::format("{}: expected an object, found {}", path_, object.type_name()),
                  path_);
  }
}

std::string Fields::path_of(const std::string& name) const {
  return path_.empty() ? name : path_ + "." + name;
}

void Fields::wrong(const std::string& name, const std::string& expected) const {
  const std::string path = path_of(name);
  throw Problem(400, fmt::format("{}: expected {}", path, expected), path);
}

const Json* Fields::find(const char* name) {
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> Fields::number(const char* name, double low, double high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= low && number <= high)) {
    wrong(name, fmt::format("a number from {:g} to {:g}", low, high));
  }
  return number;
}

std::optional<int64_t> Fields::integer(const char* name, int64_t low, int64_t high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::string expected = fmt::format("a whole number from {} to {}", low, high);
  if (value->is_number_float()) {  // 1.0 is a whole number too
    const double number = value->get<double>();
    if (number != std::floor(number) || std::fabs(number) > 9e15) wrong(name, expected);
    const auto whole = static_cast<int64_t>(number);
    if (whole < low || whole > high) wrong(name, expected);
    return whole;
  }
  if (!value->is_number_integer()) wrong(name, expected);
  if (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX) wrong(name, expected);
  const auto whole = value->get<int64_t>();
  if (whole < low || whole > high) wrong(name, expected);
  return whole;
}

std::optional<bool> Fields::boolean(const char* name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) wrong(name, "true or false");
  return value->get<bool>();
}

std::optional<std::string> Fields::text(const char* name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) wrong(name, "a string");
  return value->get<std::string>();
}

std::vector<std::string> Fields::texts(const char* name, size_t most) {
  const Json* value = find(name);
  std::vector<std::string> all;
  if (value == nullptr) return all;
  if (value->is_string()) return {value->get<std::string>()};
  const std::string expected = fmt::format("a string, or an array of at most {} strings", most);
  if (!value->is_array() || value->size() > most) wrong(name, expected);
  for (const Json& item : *value) {
    if (!item.is_string()) wrong(name, expected);
    all.push_back(item.get<std::string>());
  }
  return all;
}

const Json* Fields::object(const char* name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object()) wrong(name, "an object");
  return value;
}

const Json* Fields::schema(const char* name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is_object() && !value->is_boolean()) {
    wrong(name, "a JSON schema: an object, true or false");
  }
  return value;
}

const Json* Fields::array(const char* name, size_t most) {
  const Json* value = find(name);
  if (value != nullptr && (!value->is_array() || value->size() > most)) {
    wrong(name, fmt::format("an array of at most {} elements", most));
  }
  return value;
}

void Fields::refuse(const char* name, const char* why) {
  if (!has(name)) return;
  const std::string path = path_of(name);
  throw Problem(400, fmt::format("{}: {}", path, why), path);
}

int64_t Fields::unknown() const {
  int64_t count = 0;
  for (const auto& [name, value] : object_.items()) count += known_.contains(name) ? 0 : 1;
  return count;
}

}  // namespace infer::server
