// Copies between host and device through a ring of two staging buffers, and within the device.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>

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
  /// Bytes of one staging buffer: the most that one call of a Fill may make.
  static constexpr int64_t kStaging = 4 << 20;

  static Result<std::unique_ptr<Transfer>> create(Context& context);

  Status write(std::span<const std::byte> from, const Place& to);
  Status read(const Place& from, std::span<std::byte> to);
  Status copy(const Place& from, const Place& to, int64_t bytes);

  /// A part of a staging buffer and its target.
  struct Region {
    int64_t staged = 0;  ///< offset in the staging buffer
    Place to;
    int64_t bytes = 0;
  };
  /// Makes the next part of an upload in `out` (kStaging bytes) and returns its targets. No
  /// regions: the upload is complete.
  using Fill = std::function<Status(std::span<std::byte> out, std::vector<Region>& regions)>;
  /// Makes the next part while the previous one is copied.
  Status upload(const Fill& fill);

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
