// What the C library of POSIX and GNU has beyond the standard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace infer::os {

/// Where `what` begins in `text` first, or npos. The time is linear.
size_t find_text(std::string_view text, std::string_view what);

/// The date and time in UTC of seconds since 1970. None if the year is out of range.
std::optional<std::tm> utc_of(int64_t seconds);
/// The other way; fields may be out of range.
int64_t seconds_of(std::tm utc);
/// Seconds since 1970 of what clocks on the wall show now, read as UTC.
int64_t local_time();
/// strftime() in English whatever the locale of the process. Returns the number of bytes, 0 if they
/// do not fit; none if the system has no locale for it.
std::optional<size_t> format_in_english(std::span<char> out, const std::string& format,
                                        const std::tm& time);

}  // namespace infer::os
