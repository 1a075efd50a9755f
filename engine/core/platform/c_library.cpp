#include "engine/core/platform/c_library.h"

#include <locale.h>
#include <string.h>

namespace infer::os {

size_t find_text(std::string_view text, std::string_view what) {
  // glibc's memmem is linear: two-way search (Crochemore and Perrin 1991) for long needles.
  const void* found = memmem(text.data(), text.size(), what.data(), what.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

std::optional<std::tm> utc_of(int64_t seconds) {
  const auto since = static_cast<time_t>(seconds);
  std::tm time = {};
  if (gmtime_r(&since, &time) == nullptr) return std::nullopt;
  return time;
}

int64_t seconds_of(std::tm utc) { return static_cast<int64_t>(timegm(&utc)); }

int64_t local_time() {
  const time_t now = std::time(nullptr);
  std::tm local = {};
  if (localtime_r(&now, &local) == nullptr) return static_cast<int64_t>(now);
  return seconds_of(local);
}

std::optional<size_t> format_in_english(std::span<char> out, const std::string& format,
                                        const std::tm& time) {
  const locale_t english = newlocale(LC_ALL_MASK, "C", nullptr);
  if (english == nullptr) return std::nullopt;
  const size_t size = strftime_l(out.data(), out.size(), format.c_str(), &time, english);
  freelocale(english);
  return size;
}

}  // namespace infer::os
