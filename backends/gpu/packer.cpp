#include "backends/gpu/packer.h"

#include <algorithm>
#include <system_error>

#include "engine/core/checked.h"
#include "engine/core/work_share.h"

namespace infer::gpu {

void PackingThreads::share(int64_t count, const std::function<void(int64_t, int)>& job) {
  const std::lock_guard lock(mutex_);
  const int threads = std::min(available_threads(), kMost);
  if (pool_ == nullptr && threads > 1) {
    try {
      pool_ = std::make_unique<ThreadPool>(threads);
    } catch (const std::system_error&) {  // no thread can be made: this one does it all
    }
  }
  if (pool_ == nullptr) {
    for (int64_t i = 0; i < count; ++i) job(i, 0);
    return;
  }
  pool_->run([&](int thread) {
    const Range mine = split_range(count, thread, pool_->size());
    for (int64_t i = mine.begin; i < mine.end; ++i) job(i, thread);
  });
}

Packer::Packer(const WeightLayout& layout, const ReadFn& read, PackingThreads& threads)
    : layout_(layout), read_(read), threads_(threads) {
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
  std::vector<Status> packed(static_cast<size_t>(groups));
  const auto pack_group = [&](int64_t g, int thread) {
    std::array<int64_t, kMaxPlanes> at = starts;
    for (size_t p = 0; p < layout_.planes; ++p) at[p] += g * blocks * layout_.plane_bytes[p];
    packed[static_cast<size_t>(g)] =
        pack(group_ + g, blocks, out, at, stored_[static_cast<size_t>(thread)]);
  };
  constexpr int64_t kWorthSharing = 128 << 10;  // bytes
  if (groups > 1 && staged >= kWorthSharing) {
    threads_.share(groups, pack_group);
  } else {
    for (int64_t g = 0; g < groups; ++g) pack_group(g, 0);
  }
  for (Status& status : packed) INFER_CHECK(std::move(status));
  block_ += blocks;
  if (block_ < layout_.row_blocks) return {};
  block_ = 0;
  group_ += groups;
  return {};
}

Status Packer::pack(int64_t group, int64_t blocks, std::span<std::byte> out,
                    const std::array<int64_t, kMaxPlanes>& starts,
                    std::vector<std::byte>& stored) const {
  const auto [first, rows] = layout_.rows_of(group);
  const int64_t stride = blocks * layout_.block_bytes;
  stored.resize(static_cast<size_t>(rows * stride));
  if (layout_.row_bytes == stride) {
    INFER_CHECK(read_(static_cast<uint64_t>(first * layout_.row_bytes), stored));
  } else {
    const int64_t begin = block_ * layout_.block_bytes;
    const int64_t bytes = std::min(stride, layout_.row_bytes - begin);
    std::ranges::fill(stored, std::byte{0});  // behind the end of a row
    for (int64_t r = 0; r < rows; ++r) {
      INFER_CHECK(read_(
          static_cast<uint64_t>((first + r) * layout_.row_bytes + begin),
          std::span(stored).subspan(static_cast<size_t>(r * stride), static_cast<size_t>(bytes))));
    }
  }
  layout_.pack(layout_, stored.data(), stride, rows, blocks, out.data(), starts);
  return {};
}

}  // namespace infer::gpu
