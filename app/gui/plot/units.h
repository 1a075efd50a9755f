// Numbers of plots as text, and where the marks of an axis stand. No ImGui.
#pragma once

#include <string>
#include <vector>

namespace infer::gui {

enum class Unit {
  count,
  bytes,             ///< in KiB, MiB, …
  bytes_per_second,  ///< in kB/s, MB/s, …, as bandwidths are given
  tokens_per_second,
  percent,  ///< 100 is all
  celsius,
  watts,
  joules,
  hertz,
  seconds,
};

/// Three digits that count, with a fitting prefix: "1.50 GiB", "43.2 t/s", "12.5 ms". "-" if the
/// number is not finite.
std::string format_value(double value, Unit unit);

/// Marks of an axis from `low` to `high`.
struct Ticks {
  std::vector<double> values;
  std::vector<std::string> labels;  ///< all with the same prefix and as many digits as they need
};

/// At most `most` marks (2 to 100) at round values: 1, 2 or 5 times a power of ten; for bytes
/// powers of two; for times also 15, 30 s and whole minutes and hours. None if the range is empty
/// or not finite.
Ticks nice_ticks(double low, double high, int most, Unit unit);

}  // namespace infer::gui
