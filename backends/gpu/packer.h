// Packing a weight while it is uploaded.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/gpu/staging.h"
#include "backends/gpu/weight_layout.h"
#include "engine/backend/device.h"
#include "engine/core/thread_pool.h"

namespace infer::gpu {

/// The threads that pack a device's weights, made when the first large part comes. Thread-safe.
class PackingThreads {
 public:
  static constexpr int kMost = 16;  ///< enough for the bus of a GPU

  /// Calls job(i, thread) for i = 0 … count − 1, neighbours on one thread; thread < kMost. Throws
  /// what a job throws.
  void share(int64_t count, const std::function<void(int64_t i, int thread)>& job);

 private:
  std::mutex mutex_;
  std::unique_ptr<ThreadPool> pool_;
};

/// Packs a weight in parts that fit a staging buffer. A part is several whole groups of rows, which
/// threads share, or, if the rows are too long for that, some blocks of one group.
class Packer {
 public:
  /// `read` is called by several threads at once. It and `threads` have to outlive the packer.
  Packer(const WeightLayout& layout, const ReadFn& read, PackingThreads& threads);

  /// StagingFill: offsets are those from the weight's start.
  Status next(std::span<std::byte> out, std::vector<StagedCopy>& copies);

 private:
  /// `starts`: of the planes in `out`. `stored`: room for what is read.
  Status pack(int64_t group, int64_t blocks, std::span<std::byte> out,
              const std::array<int64_t, kMaxPlanes>& starts, std::vector<std::byte>& stored) const;

  WeightLayout layout_;
  const ReadFn& read_;
  PackingThreads& threads_;
  int64_t most_blocks_ = 0;
  int64_t most_groups_ = 0;
  int64_t group_ = 0;
  int64_t block_ = 0;
  std::array<std::vector<std::byte>, PackingThreads::kMost> stored_;  ///< by thread
};

}  // namespace infer::gpu
