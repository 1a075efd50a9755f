// Size arithmetic that cannot wrap. Every parser and planner uses it for numbers it did not make.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace infer {

/// a + b, or nothing if it does not fit.
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) {
  T out;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// a × b, or nothing if it does not fit.
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) {
  T out;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// `value` rounded up to a multiple of `step` (> 0), or nothing if it does not fit.
template <std::integral T>
[[nodiscard]] constexpr std::optional<T> checked_round_up(T value, T step) {
  const T rest = static_cast<T>(value % step);
  if (rest == 0) return value;
  return checked_add(value, static_cast<T>(step - rest));
}

/// The value in another integer type, or nothing if it does not fit.
template <std::integral To, std::integral From>
[[nodiscard]] constexpr std::optional<To> checked_cast(From value) {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

/// `value` rounded up to a multiple of `step`, for numbers known to be small.
template <std::integral T>
[[nodiscard]] constexpr T round_up(T value, T step) {
  return static_cast<T>((value + step - 1) / step * step);
}

/// ⌈a / b⌉ for a ≥ 0, b > 0.
template <std::integral T>
[[nodiscard]] constexpr T div_ceil(T a, T b) {
  return static_cast<T>((a + b - 1) / b);
}

}  // namespace infer
