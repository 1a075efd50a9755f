// Device::near_largest against looking at every value.
#pragma once

#include <doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "engine/backend/device.h"

namespace infer::test {

inline constexpr float kNearInfinity = std::numeric_limits<float>::infinity();

using Lists = std::vector<std::vector<std::pair<int32_t, float>>>;

/// By looking at every value; nothing of a row with more than `most`.
inline Lists by_hand(const std::vector<float>& values, int64_t columns, float reach, size_t most) {
  Lists lists;
  for (auto row = values.begin(); row != values.end(); row += columns) {
    float best = -kNearInfinity;
    for (int64_t i = 0; i < columns; ++i) best = row[i] > best ? row[i] : best;
    auto& list = lists.emplace_back();
    for (int64_t i = 0; i < columns; ++i) {
      if (row[i] >= best - reach) list.emplace_back(static_cast<int32_t>(i), row[i]);
    }
    if (list.size() > most) list.clear();
  }
  return lists;
}

/// Lengths from nothing to more than a list holds, values that are not numbers, ties.
inline std::vector<float> values_of(int64_t columns, int64_t rows) {
  std::vector<float> values(static_cast<size_t>(columns * rows));
  uint32_t state = 7;
  for (size_t i = 0; i < values.size(); ++i) {
    state = state * 1664525 + 1013904223;
    values[i] = static_cast<float>(state >> 8) * 0x1p-24f * 40 - 30;
  }
  for (int64_t r = 0; r < rows; ++r) {
    float* row = values.data() + r * columns;
    if (r % 4 == 1) std::fill(row, row + columns, 1.25f);
    if (r % 4 == 2) row[columns / 2] = std::numeric_limits<float>::quiet_NaN();
    if (r % 4 == 3) row[columns - 1] = 500;
  }
  return values;
}

/// Checks Device::near_largest against looking at every value, with rows of these lengths.
inline void check_near_largest(Device& device, const std::vector<int64_t>& lengths) {
  REQUIRE(device.finds_largest());
  std::vector<std::vector<IndexedValue>> found;
  for (const int64_t columns : lengths) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      if (columns > 100000 && rows > 3) continue;
      const std::vector<float> values = values_of(columns, rows);
      const auto bytes = std::as_bytes(std::span(values));
      const auto buffer = device
                              .alloc(static_cast<int64_t>(bytes.size()) + 2 * device.alignment(),
                                     Purpose::activations)
                              .value();
      const MemoryRef at{buffer.get(), device.alignment()};
      REQUIRE(device.write(bytes, at).ok());
      for (const float reach : {0.0f, 0.25f, 16.0f}) {
        CAPTURE(columns);
        CAPTURE(rows);
        CAPTURE(reach);
        REQUIRE(device.near_largest(at, columns, rows, reach, found).ok());
        Lists sorted;
        for (const auto& row : found) {
          auto& list = sorted.emplace_back();
          for (const auto& [index, value] : row) list.emplace_back(index, value);
          std::ranges::sort(list);
        }
        CHECK(sorted == by_hand(values, columns, reach, 1024));
      }
    }
  }
  const std::vector<float> none(70, std::numeric_limits<float>::quiet_NaN());
  const auto buffer = device.alloc(512, Purpose::activations).value();
  REQUIRE(device.write(std::as_bytes(std::span(none)), {buffer.get(), 0}).ok());
  REQUIRE(device.near_largest({buffer.get(), 0}, 70, 1, 4, found).ok());
  CHECK(found.at(0).empty());
}

}  // namespace infer::test
