// Packing a weight while it is uploaded.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "backends/vulkan/packing.h"
#include "backends/vulkan/transfer.h"
#include "engine/backend/device.h"

namespace infer::vulkan {

/// Packs a weight in parts that fit a staging buffer. A part is several whole groups of rows or, if
/// the rows are too long for that, some blocks of one group.
class Packer {
 public:
  /// `read` has to outlive it.
  Packer(const TensorDesc& desc, const ReadFn& read, const Place& to);

  /// Transfer::Fill.
  Status next(std::span<std::byte> out, std::vector<Transfer::Region>& regions);

 private:
  Status pack(int64_t group, int64_t blocks, std::span<std::byte> out,
              const std::array<int64_t, kMaxPlanes>& starts);

  WeightLayout layout_;
  const ReadFn& read_;
  Place to_;
  int64_t most_blocks_ = 0;
  int64_t most_groups_ = 0;
  int64_t group_ = 0;
  int64_t block_ = 0;
  std::vector<std::byte> stored_;
};

}  // namespace infer::vulkan
