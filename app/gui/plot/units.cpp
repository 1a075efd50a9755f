#include "gui/plot/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace infer::gui {
namespace {

/// A number is shown as value / divisor, with `name` behind it.
struct Scale {
  double divisor;
  const char* name;
};

Scale power_scale(double size, double base, const std::array<const char*, 6>& names) {
  Scale scale{1, names[0]};
  for (size_t i = 1; i < names.size() && size >= scale.divisor * base * 0.9995; ++i) {
    scale = {scale.divisor * base, names[i]};
  }
  return scale;
}

Scale time_scale(double size) {
  if (size == 0) return {1, " s"};
  if (size < 0.9995e-6) return {1e-9, " ns"};
  if (size < 0.9995e-3) return {1e-6, " µs"};
  if (size < 0.9995) return {1e-3, " ms"};
  if (size < 180) return {1, " s"};
  return size < 7200 ? Scale{60, " min"} : Scale{3600, " h"};
}

Scale scale_of(double size, Unit unit) {
  switch (unit) {
    case Unit::count: return power_scale(size, 1000, {"", " k", " M", " G", " T", " P"});
    case Unit::bytes:
      return power_scale(size, 1024, {" B", " KiB", " MiB", " GiB", " TiB", " PiB"});
    case Unit::bytes_per_second:
      return power_scale(size, 1000, {" B/s", " kB/s", " MB/s", " GB/s", " TB/s", " PB/s"});
    case Unit::tokens_per_second: return {1, " t/s"};
    case Unit::percent: return {1, " %"};
    case Unit::celsius: return {1, " °C"};
    case Unit::watts: return size != 0 && size < 0.9995 ? Scale{1e-3, " mW"} : Scale{1, " W"};
    case Unit::joules:
      if (size != 0 && size < 0.9995) return {1e-3, " mJ"};
      return power_scale(size, 1000, {" J", " kJ", " MJ", " GJ", " TJ", " PJ"});
    case Unit::hertz:
      return power_scale(size, 1000, {" Hz", " kHz", " MHz", " GHz", " THz", " PHz"});
    case Unit::seconds: return time_scale(size);
  }
  return {1, ""};
}

/// The decimal point is a dot in every locale.
std::string printed(double value, int decimals, const char* name) {
  char text[64];
  // Beyond 15 digits the exponent is shown.
  const auto format =
      std::abs(value) < 1e15 ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end =
      std::to_chars(text, text + sizeof text, value, format, std::clamp(decimals, 0, 9));
  return std::string(text, end.ptr) + name;
}

/// The smallest round step of at least `least`. Round is what the unit that is shown makes of it:
/// half a minute, not 20 s.
double nice_step(double least, Unit unit, double divisor) {
  if (unit == Unit::bytes) return std::exp2(std::ceil(std::log2(std::max(least, 1.0))));
  least /= divisor;
  if (unit == Unit::seconds && least > 10 && divisor >= 1) {
    for (const double step : {15.0, 20.0, 30.0, 60.0}) {
      if (step >= least) return step * divisor;
    }
  }
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power * divisor;
  }
  return 10 * power * divisor;
}

}  // namespace

std::string format_value(double value, Unit unit) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  const Scale scale = scale_of(size, unit);
  const double shown = size / scale.divisor;
  const bool whole = (unit == Unit::count || unit == Unit::bytes) && scale.divisor == 1;
  // 9.995 is shown as 10.0: the digits count after rounding.
  const int decimals = whole || shown == 0 || shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2;
  return printed(value / scale.divisor, decimals, scale.name);
}

Ticks nice_ticks(double low, double high, int most, Unit unit) {
  Ticks ticks;
  most = std::clamp(most, 2, 100);
  if (!std::isfinite(low) || !std::isfinite(high) || !std::isfinite(high - low) || low >= high) {
    return ticks;
  }
  const Scale scale = scale_of(std::max(std::abs(low), std::abs(high)), unit);
  const double step = nice_step((high - low) / (most - 1), unit, scale.divisor);
  if (!std::isfinite(step)) return ticks;
  const double first = std::ceil(low / step - 1e-9), slack = (high - low) * 1e-6;
  int decimals = 0;
  for (double s = step / scale.divisor; decimals < 6 && std::abs(s - std::round(s)) > 1e-6 * s;) {
    s *= 10;
    ++decimals;
  }
  for (int i = 0; i < most; ++i) {
    // A step that is lost in rounding (1e300 … 1e300 + 1) must not repeat a mark.
    const double value = (first + i) * step;
    if (value < low - slack) continue;
    if (value > high + slack || (!ticks.values.empty() && value <= ticks.values.back())) break;
    ticks.values.push_back(value == 0 ? 0 : value);
    ticks.labels.push_back(printed(ticks.values.back() / scale.divisor, decimals, scale.name));
  }
  return ticks;
}

}  // namespace infer::gui
