// Plain numbers as blocks of one element. They are kept as bytes, since the data of a file need not
// be aligned to the number's size.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "engine/quant/quant.h"

namespace infer {

template <typename T>
struct ScalarBlock {
  uint8_t bytes[sizeof(T)];

  T get() const {
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    return value;
  }
  void set(T value) { std::memcpy(bytes, &value, sizeof(T)); }
};

/// The codec of a type that C++ converts to and from float. Integers are rounded to the nearest
/// (halves to even) and limited to their range.
template <typename T>
struct ScalarCodec {
  using Block = ScalarBlock<T>;

  static void decode(const Block* blocks, float* out, int64_t count) {
    for (int64_t b = 0; b < count; ++b) out[b] = static_cast<float>(blocks[b].get());
  }

  static void encode(const float* in, Block* blocks, int64_t count) {
    for (int64_t b = 0; b < count; ++b) blocks[b].set(convert(in[b]));
  }

 private:
  static T convert(float value) {
    if constexpr (std::is_integral_v<T>) {
      // As a double, for 2^31 - 1 is no float; 2^63 - 1 is neither, hence the comparison.
      const double rounded = std::nearbyint(static_cast<double>(value));
      if (rounded >= static_cast<double>(std::numeric_limits<T>::max())) {
        return std::numeric_limits<T>::max();
      }
      return static_cast<T>(std::max(rounded, static_cast<double>(std::numeric_limits<T>::min())));
    } else {
      return static_cast<T>(value);
    }
  }
};

}  // namespace infer
