// Copies between host and device through a ring of two pinned buffers, and within the device.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "backends/cuda/memory.h"
#include "backends/gpu/staging.h"

namespace infer::cuda {

/// Thread-safe. Each call returns once its copies are done. They come behind the work that the
/// device has. Addresses are the device's.
class Transfer {
 public:
  static Result<std::unique_ptr<Transfer>> create(Context& context);

  Status write(std::span<const std::byte> from, uint64_t to);
  Status read(uint64_t from, std::span<std::byte> to);
  Status copy(uint64_t from, uint64_t to, int64_t bytes);
  /// From another device's memory to this one's. Nothing there writes to it.
  Status copy_from(const Context& other, uint64_t from, uint64_t to, int64_t bytes);
  /// Makes the next part while the previous one is copied.
  Status upload(uint64_t to, const gpu::StagingFill& fill);

 private:
  explicit Transfer(Context& context) : context_(context) {}

  struct Slot {
    std::unique_ptr<PinnedBuffer> staging;
    std::unique_ptr<Event> done;
  };

  Context& context_;
  std::mutex mutex_;
  Slot slots_[2];
};

}  // namespace infer::cuda
