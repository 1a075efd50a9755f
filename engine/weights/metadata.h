// The key–value metadata of a model file, with typed look-ups that explain what is wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/core/status.h"

namespace infer {

/// A value as GGUF types it. Arrays are homogeneous; arrays of arrays are not supported.
using MetaValue = std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t,
                               int64_t, float, double, bool, std::string, std::vector<uint8_t>,
                               std::vector<int8_t>, std::vector<uint16_t>, std::vector<int16_t>,
                               std::vector<uint32_t>, std::vector<int32_t>, std::vector<uint64_t>,
                               std::vector<int64_t>, std::vector<float>, std::vector<double>,
                               std::vector<bool>, std::vector<std::string>>;

/// "u32", "array of string", … for messages.
const char* meta_type_name(const MetaValue& value);

/// Keys in alphabetical order. `source` names the file in messages.
class Metadata {
 public:
  explicit Metadata(std::string source = "") : source_(std::move(source)) {}

  const std::string& source() const { return source_; }
  void set(std::string key, MetaValue value) { values_[std::move(key)] = std::move(value); }
  /// Nothing happens if the key is absent.
  void erase(std::string_view key) {
    if (const auto it = values_.find(key); it != values_.end()) values_.erase(it);
  }
  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }
  /// Null if absent.
  const MetaValue* find(std::string_view key) const;
  const std::map<std::string, MetaValue, std::less<>>& values() const { return values_; }

  // Typed look-ups: nothing if the key is absent; bad_file naming file, key, expected and found if
  // it has another type or is out of range. Any integer type converts to any other in range; float
  // accepts every number; NaN and infinity are refused.
  Result<std::optional<int64_t>> get_int(std::string_view key, int64_t min, int64_t max) const;
  Result<std::optional<double>> get_float(std::string_view key) const;
  Result<std::optional<bool>> get_bool(std::string_view key) const;
  Result<std::optional<std::string>> get_string(std::string_view key) const;
  /// A number, or an array of numbers: a single number gives a vector of one.
  Result<std::optional<std::vector<int64_t>>> get_ints(std::string_view key, int64_t min,
                                                       int64_t max) const;
  Result<std::optional<std::vector<float>>> get_floats(std::string_view key) const;
  /// The strings in place, null if the key is absent.
  Result<const std::vector<std::string>*> get_strings(std::string_view key) const;

 private:
  std::string source_;
  std::map<std::string, MetaValue, std::less<>> values_;
};

}  // namespace infer
