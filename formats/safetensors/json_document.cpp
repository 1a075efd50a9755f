#include "formats/safetensors/json_document.h"

#include <fmt/format.h>

#include <vector>

#include "engine/core/file.h"
#include "formats/safetensors/json_file.h"

namespace infer::safetensors {
namespace {

constexpr uint64_t kMaxDocumentBytes = uint64_t{256} << 20;
constexpr size_t kMaxDocumentValues = 6'000'000;
constexpr size_t kMaxDocumentLevels = 32;

/// Builds the tree within limits. The functions are those nlohmann's parser calls; a false ends it.
class TreeBuilder {
 public:
  explicit TreeBuilder(bool array) : array_(array) {}

  Json root;
  std::string problem;

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) { return add(value); }
  bool number_float(double value, const std::string&) { return add(value); }
  bool string(std::string& value) { return add(std::move(value)); }
  bool binary(std::vector<uint8_t>&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool key(std::string& name) {
    const auto [it, added] = open_.back()->get_ref<Json::object_t&>().emplace(name, nullptr);
    if (!added) return bad(fmt::format("'{}' appears twice in one object", printable(name)));
    slot_ = &it->second;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    return bad(fmt::format("is not valid JSON at its byte {}", position));
  }

 private:
  bool bad(std::string what) {
    problem = std::move(what);
    return false;
  }

  /// Where the value goes: to the key read last, or to the end of the array.
  Json* put(Json&& value) {
    if (++values_ > kMaxDocumentValues) {
      bad(fmt::format("has more than {} values", kMaxDocumentValues));
      return nullptr;
    }
    if (open_.empty()) {
      root = std::move(value);
      return &root;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) {
      auto& elements = parent.get_ref<Json::array_t&>();
      elements.push_back(std::move(value));
      return &elements.back();
    }
    *slot_ = std::move(value);
    return slot_;
  }
  bool add(Json value) {
    if (open_.empty()) return bad(expected());
    return put(std::move(value)) != nullptr;
  }
  bool open(Json&& empty) {
    if (open_.empty() && empty.is_array() != array_) return bad(expected());
    if (open_.size() == kMaxDocumentLevels)
      return bad(fmt::format("has more than {} levels", kMaxDocumentLevels));
    Json* const place = put(std::move(empty));
    if (place != nullptr) open_.push_back(place);
    return place != nullptr;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const char* expected() const { return array_ ? "expected an array" : "expected an object"; }

  bool array_;  ///< what the document is to be; else an object
  std::vector<Json*> open_;
  Json* slot_ = nullptr;  // of the key read last
  size_t values_ = 0;
};

const Json& nothing() {
  static const Json kNull;
  return kNull;
}

}  // namespace

namespace {

Result<Json> parse_document(const std::string& where, const std::string& text, bool array) {
  TreeBuilder builder(array);
  if (!Json::sax_parse(text, &builder)) {
    return fail(StatusCode::bad_file, "{}: {}", where, builder.problem);
  }
  return std::move(builder.root);
}

Result<Json> read_document(const std::string& path, bool array) {
  INFER_TRY(const File file, File::open(path));
  if (file.size() > kMaxDocumentBytes) {
    return fail(StatusCode::bad_file, "{}: expected at most {} bytes, found {}", path,
                kMaxDocumentBytes, file.size());
  }
  std::string text(file.size(), '\0');
  INFER_CHECK_R(file.read_at(0, std::as_writable_bytes(std::span(text))));
  return parse_document(path, without_infinities(std::move(text)), array);
}

}  // namespace

Result<Json> read_json_document(const std::string& path) { return read_document(path, false); }
Result<Json> read_json_array(const std::string& path) { return read_document(path, true); }

Result<Json> parse_json(const std::string& where, const std::string& text) {
  return parse_document(where, text, false);
}

JsonPlace JsonPlace::at(const std::string& key) const {
  std::string path = path_.empty() ? key : path_ + "." + key;
  if (present() && !value_->is_object()) expected("an object");
  if (!value_->is_object()) return {nothing(), *problem_, std::move(path)};
  const auto& object = value_->get_ref<const Json::object_t&>();
  const auto it = object.find(key);
  return {it == object.end() ? nothing() : it->second, *problem_, std::move(path)};
}

JsonPlace JsonPlace::at(size_t index) const {
  return {(*value_)[index], *problem_, fmt::format("{}[{}]", path_, index)};
}

size_t JsonPlace::size() const {
  if (present() && !value_->is_array()) expected("an array");
  return value_->is_array() ? value_->size() : 0;
}

std::string JsonPlace::text() const {
  if (value_->is_string()) return value_->get_ref<const std::string&>();
  expected("a string");
  return "";
}

std::string JsonPlace::text(std::string_view absent) const {
  return present() ? text() : std::string(absent);
}

bool JsonPlace::flag(bool absent) const {
  if (value_->is_boolean()) return value_->get<bool>();
  if (present()) expected("true or false");
  return absent;
}

int64_t JsonPlace::integer(int64_t min, int64_t max) const {
  const bool too_large =
      value_->is_number_unsigned() && value_->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
  if (value_->is_number_integer() && !too_large) {
    const auto found = value_->get<int64_t>();
    if (found >= min && found <= max) return found;
  }
  expected(fmt::format("an integer of {} to {}", min, max));
  return min;
}

double JsonPlace::number() const {
  if (value_->is_number()) return value_->get<double>();
  expected("a number");
  return 0;
}

std::string JsonPlace::found() const {
  switch (value_->type()) {
    case Json::value_t::null: return "nothing";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return fmt::format("an array of {}", value_->size());
    case Json::value_t::string:
      return fmt::format("'{}'", printable(value_->get_ref<const std::string&>()));
    default: return value_->dump();
  }
}

void JsonPlace::expected(std::string_view what) const {
  if (!problem_->ok()) return;
  problem_->status = error(StatusCode::bad_file, "{}: '{}': expected {}, found {}", problem_->file,
                           printable(path_), what, found());
}

void JsonPlace::unsupported(std::string_view why) const {
  if (!problem_->ok()) return;
  const bool typed =
      value_->is_object() && value_->contains("type") && (*value_)["type"].is_string();
  const std::string what =
      typed ? fmt::format("'{}'", printable((*value_)["type"].get_ref<const std::string&>()))
            : found();
  problem_->status = error(StatusCode::unsupported, "{}: '{}': {} is not supported{}{}",
                           problem_->file, printable(path_), what, why.empty() ? "" : ": ", why);
}

}  // namespace infer::safetensors
