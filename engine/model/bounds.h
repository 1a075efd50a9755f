// Bounds of the numbers that model files state. What is above is a mistake or an attack.
#pragma once

#include <cstdint>

namespace infer {

inline constexpr int64_t kMaxContext = int64_t{1} << 31;  ///< tokens
inline constexpr int64_t kMaxWidth = int64_t{1} << 20;    ///< values of a row, a head or a group

}  // namespace infer
