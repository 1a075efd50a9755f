#include "gui/format.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace infer::gui {
namespace {

template <typename... Values>
std::string format(const char* how, Values... values) {
  char text[64];
  std::snprintf(text, sizeof(text), how, values...);
  return text;
}

}  // namespace

std::string bytes_text(int64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (std::llabs(bytes) < 1024) return std::to_string(bytes) + " B";
  auto value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (std::fabs(value) >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return format("%.1f %s", value, kUnits[unit]);
}

std::string figures(double value) {
  const double size = std::fabs(value);
  return format(size >= 100 ? "%.0f" : size >= 10 ? "%.1f" : "%.2f", value);
}

std::string percent_text(double share) { return figures(share * 100) + " %"; }

std::string seconds_text(double seconds) {
  if (seconds < 10) return format("%.1f s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return format("%lld s", whole);
  return format("%lld min %lld s", whole / 60, whole % 60);
}

std::string count_text(int64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e9) return format("%.1f billion", value / 1e9);
  if (value >= 1e6) return format("%.0f million", value / 1e6);
  return std::to_string(count);
}

}  // namespace infer::gui
