#include "backends/gpu/packer.h"

#include <algorithm>

#include "engine/core/checked.h"

namespace infer::gpu {

Packer::Packer(const WeightLayout& layout, const ReadFn& read) : layout_(layout), read_(read) {
  constexpr int64_t kRoom = kStagingBytes - 16 * kMaxPlanes;
  if (layout_.groups == 0) return;
  most_blocks_ = std::clamp<int64_t>(kRoom / layout_.group_block_bytes(), 1, layout_.row_blocks);
  most_groups_ = most_blocks_ < layout_.row_blocks
                     ? 1
                     : kRoom / (layout_.group_block_bytes() * layout_.row_blocks);
}

Status Packer::next(std::span<std::byte> out, std::vector<StagedCopy>& copies) {
  const int64_t groups = std::min(most_groups_, layout_.groups - group_);
  if (groups <= 0) return {};
  const int64_t blocks = std::min(most_blocks_, layout_.row_blocks - block_);
  std::array<int64_t, kMaxPlanes> starts{};
  int64_t staged = 0;
  for (size_t p = 0; p < layout_.planes; ++p) {
    const int64_t block_bytes = layout_.plane_bytes[p];
    const int64_t bytes = groups * blocks * block_bytes;
    const int64_t at = (group_ * layout_.row_blocks + block_) * block_bytes;
    starts[p] = staged;
    copies.push_back({staged, layout_.offsets[p] + at, bytes});
    staged = round_up<int64_t>(staged + bytes, 16);
  }
  for (int64_t g = 0; g < groups; ++g) {
    INFER_CHECK(pack(group_ + g, blocks, out, starts));
    for (size_t p = 0; p < layout_.planes; ++p) {
      starts[p] += blocks * layout_.plane_bytes[p];
    }
  }
  block_ += blocks;
  if (block_ < layout_.row_blocks) return {};
  block_ = 0;
  group_ += groups;
  return {};
}

Status Packer::pack(int64_t group, int64_t blocks, std::span<std::byte> out,
                    const std::array<int64_t, kMaxPlanes>& starts) {
  const auto [first, rows] = layout_.rows_of(group);
  const int64_t stride = blocks * layout_.block_bytes;
  stored_.resize(static_cast<size_t>(rows * stride));
  if (layout_.row_bytes == stride) {
    INFER_CHECK(read_(static_cast<uint64_t>(first * layout_.row_bytes), stored_));
  } else {
    const int64_t begin = block_ * layout_.block_bytes;
    const int64_t bytes = std::min(stride, layout_.row_bytes - begin);
    std::ranges::fill(stored_, std::byte{0});  // behind the end of a row
    for (int64_t r = 0; r < rows; ++r) {
      INFER_CHECK(read_(
          static_cast<uint64_t>((first + r) * layout_.row_bytes + begin),
          std::span(stored_).subspan(static_cast<size_t>(r * stride), static_cast<size_t>(bytes))));
    }
  }
  layout_.pack(layout_, stored_.data(), stride, rows, blocks, out.data(), starts);
  return {};
}

}  // namespace infer::gpu
