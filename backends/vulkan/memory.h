// Device memory: a few large blocks that are divided into parts, and small host-visible buffers.
#pragma once

#include <memory>
#include <span>

#include "backends/gpu/heap.h"
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
  /// Memory of the host as it is, which outlives the buffer. It begins and ends at multiples of
  /// PhysicalDevice::import_alignment.
  static Result<std::unique_ptr<RawBuffer>> import(Context& context, std::span<std::byte> memory);
  ~RawBuffer();
  RawBuffer(const RawBuffer&) = delete;
  RawBuffer& operator=(const RawBuffer&) = delete;

  VkBuffer handle() const { return handle_; }
  VkDeviceAddress address() const { return address_; }
  int64_t size() const { return size_; }
  std::byte* data() const { return data_; }

 private:
  RawBuffer(Context& context, int64_t bytes) : context_(context), size_(bytes) {}
  /// Makes the buffer. `more`: of VkBufferCreateInfo.
  Status make(const void* more);
  /// Its memory, of a type out of `allowed`. `more`: of VkMemoryAllocateInfo.
  Status allocate(uint32_t allowed, VkMemoryPropertyFlags required, VkMemoryPropertyFlags preferred,
                  const void* more);

  Context& context_;
  int64_t size_;
  VkBuffer handle_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  VkDeviceAddress address_ = 0;
  std::byte* data_ = nullptr;
};

class Heap : public gpu::Heap<RawBuffer> {
 public:
  explicit Heap(Context& context);
};

}  // namespace infer::vulkan
