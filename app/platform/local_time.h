// The calendar and the clock where the user is.
#pragma once

#include <cstdint>
#include <ctime>

namespace infer::platform {

/// `seconds` since 1970, UTC, as the clock on the wall shows it. False for a time that no calendar
/// has.
bool local_time(int64_t seconds, std::tm& local);

}  // namespace infer::platform
