// Numbers as text and marks of axes.
#include "gui/plot/units.h"

#include <doctest.h>

#include <cmath>
#include <limits>

#include "gui/plot/axes.h"

using namespace infer::gui;

TEST_CASE("values have three digits that count, a prefix and a dot") {
  CHECK_EQ(format_value(0, Unit::bytes), "0 B");
  CHECK_EQ(format_value(1023, Unit::bytes), "1023 B");
  CHECK_EQ(format_value(1536, Unit::bytes), "1.50 KiB");
  CHECK_EQ(format_value(43.21, Unit::tokens_per_second), "43.2 t/s");
  CHECK_EQ(format_value(9.996, Unit::tokens_per_second), "10.0 t/s");
  CHECK_EQ(format_value(1234567, Unit::count), "1.23 M");
  CHECK_EQ(format_value(0.0125, Unit::seconds), "12.5 ms");
  CHECK_EQ(format_value(600, Unit::seconds), "10.0 min");
  CHECK_EQ(format_value(1008e9, Unit::bytes_per_second), "1.01 TB/s");
  CHECK_EQ(format_value(71, Unit::celsius), "71.0 °C");
  CHECK_EQ(format_value(0.25, Unit::joules), "250 mJ");
  CHECK_EQ(format_value(100, Unit::percent), "100 %");
  CHECK_EQ(format_value(-2048, Unit::bytes), "-2.00 KiB");
  CHECK_EQ(format_value(std::nan(""), Unit::watts), "-");
  CHECK_EQ(format_value(INFINITY, Unit::bytes), "-");
  CHECK_FALSE(format_value(1e300, Unit::bytes).empty());
  CHECK_FALSE(format_value(std::numeric_limits<double>::denorm_min(), Unit::seconds).empty());
}

TEST_CASE("marks stand at round values") {
  using Labels = std::vector<std::string>;
  CHECK_EQ(nice_ticks(0, 50, 6, Unit::tokens_per_second).labels,
           Labels{"0 t/s", "10 t/s", "20 t/s", "30 t/s", "40 t/s", "50 t/s"});
  CHECK_EQ(nice_ticks(0, 24.0 * (1 << 30), 5, Unit::bytes).labels,
           Labels{"0 GiB", "8 GiB", "16 GiB", "24 GiB"});
  CHECK_EQ(nice_ticks(-60, 0, 6, Unit::seconds).labels,
           Labels{"-60 s", "-45 s", "-30 s", "-15 s", "0 s"});
  CHECK_EQ(nice_ticks(-240, 0, 9, Unit::seconds).labels,
           Labels{"-4.0 min", "-3.5 min", "-3.0 min", "-2.5 min", "-2.0 min", "-1.5 min",
                  "-1.0 min", "-0.5 min", "0.0 min"});
  CHECK_EQ(nice_ticks(-600, 0, 6, Unit::seconds).labels,
           Labels{"-10 min", "-8 min", "-6 min", "-4 min", "-2 min", "0 min"});
  CHECK_EQ(nice_ticks(0, 1, 5, Unit::watts).labels, Labels{"0.0 W", "0.5 W", "1.0 W"});
}

TEST_CASE("marks of any range are few, ordered and within it") {
  constexpr double kHuge = std::numeric_limits<double>::max();
  for (const double low : {-kHuge, -1e9, -1.0, 0.0, 1e-300, 0.1, 1e15, 1e300, double(NAN)}) {
    for (const double high :
         {-1.0, 0.0, 1e-299, 0.1000001, 3.0, 1e15 + 1, kHuge, double(INFINITY)}) {
      for (const Unit unit : {Unit::count, Unit::bytes, Unit::seconds, Unit::percent}) {
        for (const int most : {-5, 2, 7, 100, 100'000}) {
          const Ticks ticks = nice_ticks(low, high, most, unit);
          REQUIRE(ticks.values.size() <= 100);
          REQUIRE_EQ(ticks.values.size(), ticks.labels.size());
          for (size_t i = 0; i < ticks.values.size(); ++i) {
            REQUIRE(ticks.values[i] >= low - (high - low) * 1e-6);
            REQUIRE(ticks.values[i] <= high + (high - low) * 1e-6);
            if (i > 0) REQUIRE(ticks.values[i] > ticks.values[i - 1]);
          }
        }
      }
    }
  }
}

TEST_CASE("a range is never empty") {
  for (const AxisRange range :
       {AxisRange{1, 1}, {2, 1}, {double(NAN), 1}, {0, INFINITY}, {1e300, 1e300}}) {
    const AxisRange checked = range.checked();
    CHECK(std::isfinite(checked.low));
    CHECK(checked.low < checked.high);
  }
}
