#include "gui/format.h"

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <iterator>

#include "platform/local_time.h"

namespace infer::gui {
namespace {

/// The decimal point is a dot in every locale.
std::string fixed(double value, int decimals) {
  char text[400];
  const auto end =
      std::to_chars(std::begin(text), std::end(text), value, std::chars_format::fixed, decimals);
  return {text, end.ptr};
}

bool same_day(const std::tm& a, const std::tm& b) {
  return a.tm_year == b.tm_year && a.tm_yday == b.tm_yday;
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
  return fixed(value, 1) + " " + kUnits[unit];
}

std::string figures(double value) {
  const double size = std::fabs(value);
  return fixed(value, size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

std::string percent_text(double share) { return figures(share * 100) + " %"; }

std::string seconds_text(double seconds) {
  if (seconds < 1) return fixed(seconds * 1000, 0) + " ms";
  if (seconds < 10) return fixed(seconds, 1) + " s";
  const auto whole = static_cast<long long>(std::llround(seconds));
  if (whole < 60) return std::to_string(whole) + " s";
  return std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
}

std::string when_text(int64_t time, int64_t now) {
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::tm then{};
  std::tm today{};
  const bool known = time != 0 && platform::local_time(time / 1000, then) &&
                     platform::local_time(now / 1000, today);
  if (!known) return {};
  std::tm yesterday = today;
  yesterday.tm_mday -= 1;
  yesterday.tm_hour = 12;  // whatever the clocks did in the night
  yesterday.tm_isdst = -1;
  (void)std::mktime(&yesterday);
  std::string day;
  if (same_day(then, today)) {
    day = "today";
  } else if (same_day(then, yesterday)) {
    day = "yesterday";
  } else {
    day = std::to_string(then.tm_mday) + " " + kMonths[then.tm_mon % 12];
    if (then.tm_year != today.tm_year) day += " " + std::to_string(1900 + then.tm_year);
  }
  const std::string minutes = std::to_string(then.tm_min);
  return day + " " + std::to_string(then.tm_hour) + (minutes.size() < 2 ? ":0" : ":") + minutes;
}

std::string when_text(int64_t time) {
  using namespace std::chrono;
  return when_text(time,
                   duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count());
}

std::string count_text(int64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e9) return fixed(value / 1e9, 1) + " billion";
  if (value >= 1e6) return fixed(value / 1e6, 0) + " million";
  return std::to_string(count);
}

}  // namespace infer::gui
