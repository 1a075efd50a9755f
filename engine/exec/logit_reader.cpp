#include "engine/exec/logit_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace infer {

Result<std::span<const float>> LogitReader::read(Device& device, const MemoryRef& at,
                                                 int64_t columns, int64_t rows,
                                                 const LogitsNeeded& needed) {
  const auto count = static_cast<size_t>(columns * rows);
  if (count == 0) return std::span<const float>();
  if (const std::byte* seen = device.view(at); seen != nullptr) {
    return std::span(reinterpret_cast<const float*>(seen), count);
  }
  if (!needed.all() && device.finds_largest()) {
    INFER_TRY(const bool enough, read_near(device, at, columns, rows, needed));
    if (enough) return std::span<const float>(copy_).first(count);
  }
  copy_.resize(count);
  whole_ = true;
  INFER_CHECK_R(device.read(at, std::as_writable_bytes(std::span(copy_))));
  return std::span<const float>(copy_);
}

/// False if the device has not found enough of every row.
Result<bool> LogitReader::read_near(Device& device, const MemoryRef& at, int64_t columns,
                                    int64_t rows, const LogitsNeeded& needed) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const auto count = static_cast<size_t>(columns * rows);
  const auto place = [](int64_t width, size_t row, const IndexedValue& v) {
    return row * static_cast<size_t>(width) + static_cast<size_t>(v.index);
  };
  // Few values change from step to step: only those of the last one are taken back.
  if (whole_ || copy_.size() < count) {
    copy_.assign(std::max(count, copy_.size()), kNone);
    whole_ = false;
  } else {
    for (size_t r = 0; r < near_.size(); ++r) {
      for (const IndexedValue& v : near_[r]) copy_[place(columns_, r, v)] = kNone;
    }
  }
  columns_ = columns;
  const auto fail_with = [&](Status status) {
    near_.clear();
    return tl::unexpected(std::move(status));
  };
  if (Status found = device.near_largest(at, columns, rows, needed.reach, near_); !found.ok()) {
    return fail_with(std::move(found));
  }
  const auto is_enough = [&](const std::vector<IndexedValue>& row) {
    return static_cast<int64_t>(row.size()) >= needed.least &&
           std::ranges::all_of(row, [](const IndexedValue& v) { return std::isfinite(v.value); });
  };
  if (!std::ranges::all_of(near_, is_enough)) {
    near_.clear();
    return false;
  }
  for (size_t r = 0; r < near_.size(); ++r) {
    for (const IndexedValue& v : near_[r]) copy_[place(columns, r, v)] = v.value;
  }
  return true;
}

}  // namespace infer
