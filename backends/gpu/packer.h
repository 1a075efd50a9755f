// Packing a weight while it is uploaded.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "backends/gpu/staging.h"
#include "backends/gpu/weight_layout.h"
#include "engine/backend/device.h"

namespace infer::gpu {

/// Packs a weight in parts that fit a staging buffer. A part is several whole groups of rows or, if
/// the rows are too long for that, some blocks of one group.
class Packer {
 public:
  /// `read` has to outlive it.
  Packer(const WeightLayout& layout, const ReadFn& read);

  /// StagingFill: offsets are those from the weight's start.
  Status next(std::span<std::byte> out, std::vector<StagedCopy>& copies);

 private:
  Status pack(int64_t group, int64_t blocks, std::span<std::byte> out,
              const std::array<int64_t, kMaxPlanes>& starts);

  WeightLayout layout_;
  const ReadFn& read_;
  int64_t most_blocks_ = 0;
  int64_t most_groups_ = 0;
  int64_t group_ = 0;
  int64_t block_ = 0;
  std::vector<std::byte> stored_;
};

}  // namespace infer::gpu
