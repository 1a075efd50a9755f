// Device memory: a few large blocks that are divided into parts, and small host-visible buffers.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/vulkan/context.h"

namespace infer::vulkan {

/// Every part of a block begins at a multiple of this, in bytes.
inline constexpr int64_t kAlignment = 128;

/// One VkBuffer with memory of its own and an address for shaders.
class RawBuffer {
 public:
  /// `required` and `preferred`: properties of the memory. Errors: out_of_memory, device.
  static Result<std::unique_ptr<RawBuffer>> create(Context& context, int64_t bytes,
                                                   VkMemoryPropertyFlags required,
                                                   VkMemoryPropertyFlags preferred);
  /// Memory that the host writes and reads at data().
  static Result<std::unique_ptr<RawBuffer>> create_mapped(Context& context, int64_t bytes,
                                                          VkMemoryPropertyFlags preferred);
  ~RawBuffer();
  RawBuffer(const RawBuffer&) = delete;
  RawBuffer& operator=(const RawBuffer&) = delete;

  VkBuffer handle() const { return handle_; }
  VkDeviceAddress address() const { return address_; }
  int64_t size() const { return size_; }
  std::byte* data() const { return data_; }

 private:
  RawBuffer(Context& context, int64_t bytes) : context_(context), size_(bytes) {}

  Context& context_;
  int64_t size_;
  VkBuffer handle_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  VkDeviceAddress address_ = 0;
  std::byte* data_ = nullptr;
};

/// A part of a block, in bytes from its start.
struct Part {
  RawBuffer* block = nullptr;
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// Allocates parts of blocks: the smallest gap that fits, otherwise a part of a new block. A large
/// request gets a block of its own size, so that no more memory is used than planned. Small
/// requests share blocks. Empty blocks are freed. Thread-safe.
class Heap {
 public:
  explicit Heap(Context& context) : context_(context) {}

  Result<Part> allocate(int64_t bytes);
  void release(const Part& part);
  /// Bytes allocated from the driver.
  int64_t held() const;
  int64_t blocks() const;

 private:
  struct Block {
    std::unique_ptr<RawBuffer> buffer;
    std::map<int64_t, int64_t> gaps;  ///< offset → bytes
  };

  Context& context_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
};

}  // namespace infer::vulkan
