#include "formats/safetensors/json_file.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/core/file.h"

namespace infer::safetensors {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{64} << 20;
constexpr size_t kMaxValues = 400'000;
constexpr size_t kMaxLevels = 16;
constexpr size_t kMaxPathBytes = 512;

/// The functions are those nlohmann's parser calls; a false ends it.
class Flattener {
 public:
  Flattener(const std::string& prefix, Metadata& out) : out_(out), path_(prefix) {}

  std::string problem;

  bool null() { return leave_out(); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(int64_t value) { return add(value); }
  bool number_unsigned(uint64_t value) {
    if (value <= static_cast<uint64_t>(INT64_MAX)) return add(static_cast<int64_t>(value));
    return add(value);
  }
  bool number_float(double value, const std::string&) {
    // Some programs write counts so: 2048.0.
    const bool whole = std::abs(value) < 0x1p53 && std::trunc(value) == value;
    const bool alone = levels_.empty() || !levels_.back().array;
    return whole && alone ? add(static_cast<int64_t>(value)) : add(value);
  }
  bool string(std::string& text) { return add(std::move(text)); }
  bool binary(std::vector<uint8_t>&) { return false; }

  bool start_object(size_t) { return open(false); }
  bool end_object() { return close(); }
  bool start_array(size_t) { return open(true); }
  bool end_array() {
    Level& level = levels_.back();
    if (level.plain && level.count > 0) {
      // One value under the array's own path.
      path_.resize(level.path_bytes);
      if (!put(std::move(level.values))) return false;
    }
    return close();
  }
  bool key(std::string& name) {
    Level& level = levels_.back();
    path_.resize(level.path_bytes);
    if (levels_.size() > 1) path_ += '.';
    path_ += name;
    return check_path();
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    return bad(fmt::format("is not valid JSON at its byte {}", position));
  }

 private:
  struct Level {
    bool array = false;
    size_t path_bytes = 0;  // of the path to it
    size_t count = 0;       // of elements of an array
    bool plain = false;     // an array of one scalar type so far, held in `values`
    MetaValue values;
  };

  bool bad(std::string what) {
    problem = std::move(what);
    return false;
  }
  bool check_path() {
    if (path_.size() <= kMaxPathBytes) return true;
    return bad(
        fmt::format("'{}': expected at most {} bytes of keys", printable(path_), kMaxPathBytes));
  }

  /// Sets the path of an array's next element.
  bool index() {
    if (levels_.empty() || !levels_.back().array) return true;
    Level& level = levels_.back();
    path_.resize(level.path_bytes);
    path_ += fmt::format(".{}", level.count);
    return check_path();
  }

  bool put(MetaValue value) {
    if (++values_ > kMaxValues) return bad(fmt::format("has more than {} values", kMaxValues));
    if (out_.has(path_)) return bad(fmt::format("'{}' appears twice", printable(path_)));
    out_.set(path_, std::move(value));
    return true;
  }

  template <typename T>
  bool add(T value) {
    if (levels_.empty()) return bad("expected an object");
    Level& level = levels_.back();
    if (!level.array) return put(std::move(value));
    if (level.count == 0) {
      level.values = std::vector<T>();
      level.plain = true;
    }
    if (level.plain) {
      if (++values_ > kMaxValues) return bad(fmt::format("has more than {} values", kMaxValues));
      if (append(level.values, value)) {
        ++level.count;
        return true;
      }
      if (!spread()) return false;
    }
    if (!index() || !put(std::move(value))) return false;
    ++level.count;
    return true;
  }

  /// Adds to an array of the value's type; integers and floats make one of floats.
  template <typename T>
  static bool append(MetaValue& values, const T& value) {
    if (auto* same = std::get_if<std::vector<T>>(&values)) {
      same->push_back(value);
      return true;
    }
    if constexpr (std::is_same_v<T, double>) {
      if (const auto* whole = std::get_if<std::vector<int64_t>>(&values)) {
        std::vector<double> numbers(whole->begin(), whole->end());
        numbers.push_back(value);
        values = std::move(numbers);
        return true;
      }
    }
    if constexpr (std::is_same_v<T, int64_t>) {
      if (auto* numbers = std::get_if<std::vector<double>>(&values)) {
        numbers->push_back(static_cast<double>(value));
        return true;
      }
    }
    return false;
  }

  /// Gives the elements of an array so far, which turned out to be a mixed one, keys of their own.
  bool spread() {
    Level& level = levels_.back();
    const MetaValue values = std::exchange(level.values, MetaValue());
    level.plain = false;
    const size_t count = level.count;
    level.count = 0;
    return std::visit(
        [&](const auto& all) {
          if constexpr (requires {
                          all.size();
                          all.begin();
                        }) {
            if constexpr (!std::is_same_v<std::decay_t<decltype(all)>, std::string>) {
              using E = typename std::decay_t<decltype(all)>::value_type;
              for (; level.count < count; ++level.count) {
                if (!index() || !put(MetaValue(static_cast<E>(all[level.count])))) return false;
              }
            }
          }
          return true;
        },
        values);
  }

  bool leave_out() {
    if (levels_.empty()) return bad("expected an object");
    return begin_element() && end_element();
  }

  /// An element that is no scalar: the array around it is no plain one.
  bool begin_element() {
    if (levels_.empty() || !levels_.back().array) return true;
    if (levels_.back().plain && !spread()) return false;
    return index();
  }
  bool end_element() {
    if (!levels_.empty() && levels_.back().array) ++levels_.back().count;
    return true;
  }

  bool open(bool array) {
    if (levels_.empty() && array) return bad("expected an object");
    if (levels_.size() == kMaxLevels) {
      return bad(fmt::format("'{}': expected at most {} levels", printable(path_), kMaxLevels));
    }
    if (!begin_element()) return false;
    levels_.push_back({array, path_.size()});
    return true;
  }
  bool close() {
    levels_.pop_back();
    return end_element();
  }

  Metadata& out_;
  std::string path_;
  std::vector<Level> levels_;
  size_t values_ = 0;
};

}  // namespace

std::string without_infinities(std::string text) {
  if (text.find("Infinity") == text.npos && text.find("NaN") == text.npos) return text;
  std::string clean;
  clean.reserve(text.size());
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i);
    size_t length = 0;
    for (const std::string_view number : {"-Infinity", "Infinity", "NaN"}) {
      if (!in_string && length == 0 && rest.starts_with(number)) length = number.size();
    }
    if (length > 0) {
      clean += "null";
      i += length - 1;
      continue;
    }
    if (text[i] == '"') in_string = !in_string;
    clean += text[i];
    if (in_string && text[i] == '\\' && i + 1 < text.size()) clean += text[++i];
  }
  return clean;
}

Status read_json_file(const std::string& path, const std::string& prefix, Metadata& out) {
  INFER_TRY_S(const File file, File::open(path));
  if (file.size() > kMaxFileBytes) {
    return error(StatusCode::bad_file, "{}: expected at most {} bytes, found {}", path,
                 kMaxFileBytes, file.size());
  }
  std::string text(file.size(), '\0');
  INFER_CHECK(file.read_at(0, std::as_writable_bytes(std::span(text))));
  Flattener flattener(prefix, out);
  if (!nlohmann::json::sax_parse(without_infinities(std::move(text)), &flattener)) {
    return error(StatusCode::bad_file, "{}: {}", path, flattener.problem);
  }
  return {};
}

}  // namespace infer::safetensors
