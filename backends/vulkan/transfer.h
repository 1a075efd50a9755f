// Copies between host and device through a ring of two staging buffers, and within the device.
#pragma once

#include <memory>
#include <mutex>
#include <span>

#include "backends/gpu/staging.h"
#include "backends/vulkan/memory.h"

namespace infer::vulkan {

/// A place in a device buffer, in bytes from its start.
struct Place {
  VkBuffer buffer = VK_NULL_HANDLE;
  int64_t offset = 0;
};

/// Thread-safe. Each call returns once its copies are done.
class Transfer {
 public:
  static Result<std::unique_ptr<Transfer>> create(Context& context);

  Status write(std::span<const std::byte> from, const Place& to);
  Status read(const Place& from, std::span<std::byte> to);
  Status copy(const Place& from, const Place& to, int64_t bytes);
  /// Makes the next part while the previous one is copied.
  Status upload(const Place& to, const gpu::StagingFill& fill);

 private:
  explicit Transfer(Context& context) : context_(context) {}

  struct Slot {
    std::unique_ptr<RawBuffer> staging;
    std::unique_ptr<Commands> commands;
  };
  Status run(Slot& slot, std::span<const VkBufferCopy> copies, VkBuffer from, VkBuffer to);

  Context& context_;
  std::mutex mutex_;
  Slot slots_[2];
};

}  // namespace infer::vulkan
