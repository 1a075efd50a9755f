// The range of an option that is a number.
#pragma once

#include <cstdint>
#include <limits>

#include "engine/core/status.h"

namespace infer {

/// invalid_argument, with what was expected, if a value is outside its range. NaN is outside of
/// all.
template <typename T>
Status check_option(const char* name, T value, double low, double high) {
  const auto number = static_cast<double>(value);
  if (number >= low && number <= high) return {};
  if (high >= std::numeric_limits<int32_t>::max() && number < low) {
    return error(StatusCode::invalid_argument, "{}: expected {} or more, found {}", name, low,
                 value);
  }
  return error(StatusCode::invalid_argument, "{}: expected {} to {}, found {}", name, low, high,
               value);
}

}  // namespace infer
