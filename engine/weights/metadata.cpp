#include "engine/weights/metadata.h"

#include <cmath>
#include <type_traits>

namespace infer {
namespace {

template <typename T>
constexpr bool kIsNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

template <typename T>
struct ElementOf {
  using type = void;
};
template <typename T>
struct ElementOf<std::vector<T>> {
  using type = T;
};

template <typename T>
std::optional<int64_t> to_int(T value, int64_t min, int64_t max) {
  if constexpr (std::is_integral_v<T>) {
    if (std::cmp_less(value, min) || std::cmp_greater(value, max)) return std::nullopt;
    return static_cast<int64_t>(value);
  } else {
    return std::nullopt;
  }
}

tl::unexpected<Status> mismatch(const std::string& source, std::string_view key,
                                std::string_view expected, const MetaValue& found) {
  return fail(StatusCode::bad_file, "{}: key '{}': expected {}, found {}", source, key, expected,
              meta_type_name(found));
}

}  // namespace

const char* meta_type_name(const MetaValue& value) {
  static constexpr const char* kNames[] = {
      "u8",           "i8",           "u16",           "i16",
      "u32",          "i32",          "u64",           "i64",
      "f32",          "f64",          "bool",          "string",
      "array of u8",  "array of i8",  "array of u16",  "array of i16",
      "array of u32", "array of i32", "array of u64",  "array of i64",
      "array of f32", "array of f64", "array of bool", "array of string"};
  static_assert(std::size(kNames) == std::variant_size_v<MetaValue>);
  return kNames[value.index()];
}

const MetaValue* Metadata::find(std::string_view key) const {
  const auto it = values_.find(key);
  return it == values_.end() ? nullptr : &it->second;
}

Result<std::optional<int64_t>> Metadata::get_int(std::string_view key, int64_t min,
                                                 int64_t max) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return std::optional<int64_t>();
  return std::visit(
      [&](const auto& v) -> Result<std::optional<int64_t>> {
        using T = std::decay_t<decltype(v)>;
        if constexpr (kIsNumber<T> && std::is_integral_v<T>) {
          if (const std::optional<int64_t> n = to_int(v, min, max)) return n;
          return fail(StatusCode::bad_file, "{}: key '{}': expected {} to {}, found {}", source_,
                      key, min, max, v);
        } else {
          return mismatch(source_, key, "an integer", *value);
        }
      },
      *value);
}

Result<std::optional<double>> Metadata::get_float(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return std::optional<double>();
  return std::visit(
      [&](const auto& v) -> Result<std::optional<double>> {
        using T = std::decay_t<decltype(v)>;
        if constexpr (kIsNumber<T>) {
          const double number = static_cast<double>(v);
          if (std::isfinite(number)) return std::optional<double>(number);
          return fail(StatusCode::bad_file, "{}: key '{}': expected a finite number, found {}",
                      source_, key, number);
        } else {
          return mismatch(source_, key, "a number", *value);
        }
      },
      *value);
}

Result<std::optional<bool>> Metadata::get_bool(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return std::optional<bool>();
  if (const bool* v = std::get_if<bool>(value)) return std::optional<bool>(*v);
  return mismatch(source_, key, "a bool", *value);
}

Result<std::optional<std::string>> Metadata::get_string(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return std::optional<std::string>();
  if (const std::string* v = std::get_if<std::string>(value)) return std::optional<std::string>(*v);
  return mismatch(source_, key, "a string", *value);
}

Result<std::optional<std::vector<int64_t>>> Metadata::get_ints(std::string_view key, int64_t min,
                                                               int64_t max) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return std::optional<std::vector<int64_t>>();
  return std::visit(
      [&](const auto& v) -> Result<std::optional<std::vector<int64_t>>> {
        using T = std::decay_t<decltype(v)>;
        using E = typename ElementOf<T>::type;
        std::vector<int64_t> out;
        const auto add = [&](auto element) {
          const std::optional<int64_t> n = to_int(element, min, max);
          if (n) out.push_back(*n);
          return n.has_value();
        };
        if constexpr (kIsNumber<T> && std::is_integral_v<T>) {
          if (add(v)) return std::optional(std::move(out));
          return fail(StatusCode::bad_file, "{}: key '{}': expected {} to {}, found {}", source_,
                      key, min, max, v);
        } else if constexpr (std::is_integral_v<E> && !std::is_same_v<E, bool>) {
          out.reserve(v.size());
          for (const E element : v) {
            if (!add(element)) {
              return fail(StatusCode::bad_file, "{}: key '{}': expected {} to {}, found {}",
                          source_, key, min, max, element);
            }
          }
          return std::optional(std::move(out));
        } else {
          return mismatch(source_, key, "an integer or an array of integers", *value);
        }
      },
      *value);
}

Result<std::optional<std::vector<float>>> Metadata::get_floats(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return std::optional<std::vector<float>>();
  return std::visit(
      [&](const auto& v) -> Result<std::optional<std::vector<float>>> {
        using T = std::decay_t<decltype(v)>;
        using E = typename ElementOf<T>::type;
        if constexpr (kIsNumber<T>) {
          return std::optional(std::vector<float>{static_cast<float>(v)});
        } else if constexpr (kIsNumber<E>) {
          return std::optional(std::vector<float>(v.begin(), v.end()));
        } else {
          return mismatch(source_, key, "an array of numbers", *value);
        }
      },
      *value);
}

Result<const std::vector<std::string>*> Metadata::get_strings(std::string_view key) const {
  const MetaValue* value = find(key);
  if (value == nullptr) return nullptr;
  if (const auto* v = std::get_if<std::vector<std::string>>(value)) return v;
  return mismatch(source_, key, "an array of string", *value);
}

}  // namespace infer
