// Device memory: a few large blocks that are divided into parts.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/backend/device.h"
#include "engine/core/checked.h"

namespace infer::gpu {

/// A part of a block, in bytes from its start.
template <typename Raw>
struct Part {
  Raw* block = nullptr;
  int64_t offset = 0;
  int64_t bytes = 0;

  uint64_t address() const { return block->address() + static_cast<uint64_t>(offset); }
};

/// Allocates parts of blocks: the smallest gap that fits, otherwise a part of a new block. A large
/// request gets a block of its own size, so that no more memory is used than planned. Small
/// requests share blocks. Empty blocks are freed. Thread-safe.
/// Raw: memory of the driver, with size() in bytes and address() on the device.
template <typename Raw>
class Heap {
 public:
  using Make = std::function<Result<std::unique_ptr<Raw>>(int64_t bytes)>;
  /// Every part begins at a multiple of `alignment` bytes. Blocks are multiples of `granule`.
  Heap(Make make, int64_t alignment, int64_t granule = 1)
      : make_(std::move(make)), alignment_(alignment), granule_(granule) {}

  Result<Part<Raw>> allocate(int64_t bytes) {
    bytes = round_up(std::max<int64_t>(bytes, 1), alignment_);
    const std::lock_guard lock(mutex_);
    Block* best = nullptr;
    std::map<int64_t, int64_t>::iterator gap;
    for (Block& block : blocks_) {
      for (auto it = block.gaps.begin(); it != block.gaps.end(); ++it) {
        if (it->second < bytes || (best != nullptr && it->second >= gap->second)) continue;
        best = &block;
        gap = it;
      }
    }
    if (best == nullptr) {
      const int64_t size = round_up(bytes * 2 > kSharedBlock ? bytes : kSharedBlock, granule_);
      INFER_TRY(auto raw, make_(size));
      blocks_.push_back({std::move(raw), {{0, size}}});
      best = &blocks_.back();
      gap = best->gaps.begin();
    }
    const auto [offset, size] = *gap;
    best->gaps.erase(gap);
    if (size > bytes) best->gaps.emplace(offset + bytes, size - bytes);
    return Part<Raw>{best->raw.get(), offset, bytes};
  }

  void release(const Part<Raw>& part) {
    const std::lock_guard lock(mutex_);
    const auto block =
        std::ranges::find_if(blocks_, [&](const Block& b) { return b.raw.get() == part.block; });
    auto& gaps = block->gaps;
    auto it = gaps.emplace(part.offset, part.bytes).first;
    if (const auto next = std::next(it);
        next != gaps.end() && next->first == it->first + it->second) {
      it->second += next->second;
      gaps.erase(next);
    }
    if (it != gaps.begin()) {
      const auto before = std::prev(it);
      if (before->first + before->second == it->first) {
        before->second += it->second;
        gaps.erase(it);
      }
    }
    if (gaps.begin()->second == block->raw->size()) blocks_.erase(block);
  }

  /// Bytes allocated from the driver.
  int64_t held() const {
    const std::lock_guard lock(mutex_);
    int64_t sum = 0;
    for (const Block& block : blocks_) sum += block.raw->size();
    return sum;
  }
  int64_t blocks() const {
    const std::lock_guard lock(mutex_);
    return static_cast<int64_t>(blocks_.size());
  }

 private:
  /// What small requests share.
  static constexpr int64_t kSharedBlock = 4 << 20;

  struct Block {
    std::unique_ptr<Raw> raw;
    std::map<int64_t, int64_t> gaps;  ///< offset → bytes
  };

  Make make_;
  int64_t alignment_;
  int64_t granule_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
};

/// A part of the heap, given back with the object.
template <typename Raw>
class HeapBuffer final : public Buffer {
 public:
  /// `counter`: bytes allocated for its purpose.
  HeapBuffer(Heap<Raw>& heap, const Part<Raw>& part, int64_t size, std::atomic<int64_t>& counter)
      : heap_(heap), part_(part), size_(size), counter_(counter) {
    counter_.fetch_add(size_);
  }
  ~HeapBuffer() override {
    heap_.release(part_);
    counter_.fetch_sub(size_);
  }
  int64_t size() const override { return size_; }
  std::byte* address() const override {
    return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(part_.address()));
  }
  const Part<Raw>& part() const { return part_; }

 private:
  Heap<Raw>& heap_;
  Part<Raw> part_;
  int64_t size_;
  std::atomic<int64_t>& counter_;
};

/// Device::alloc() of a heap.
template <typename Raw>
Result<std::unique_ptr<Buffer>> allocate_buffer(Heap<Raw>& heap, int64_t bytes, Purpose purpose,
                                                std::atomic<int64_t>& counter) {
  Result<Part<Raw>> part = heap.allocate(bytes);
  if (!part) {
    return fail(part.error().code(), "{} ({} bytes for {})", part.error().message(), bytes,
                purpose_name(purpose));
  }
  return std::make_unique<HeapBuffer<Raw>>(heap, *part, bytes, counter);
}

}  // namespace infer::gpu
