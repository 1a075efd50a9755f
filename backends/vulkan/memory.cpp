#include "backends/vulkan/memory.h"

namespace infer::vulkan {

Status RawBuffer::make(const void* more) {
  const PhysicalDevice& physical = context_.physical();
  if (size_ > physical.largest_allocation) {
    return error(StatusCode::out_of_memory,
                 "{}: a buffer of {} bytes exceeds the limit of its driver, {}", physical.name,
                 size_, physical.largest_allocation);
  }
  VkBufferCreateInfo create{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, more};
  create.size = static_cast<VkDeviceSize>(size_);
  create.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  return context_.check(context_.vk().vkCreateBuffer(context_.device(), &create, nullptr, &handle_),
                        "cannot make a buffer");
}

Status RawBuffer::allocate(uint32_t allowed, VkMemoryPropertyFlags required,
                           VkMemoryPropertyFlags preferred, const void* more) {
  const VolkDeviceTable& vk = context_.vk();
  VkMemoryRequirements needs;
  vk.vkGetBufferMemoryRequirements(context_.device(), handle_, &needs);
  if (more != nullptr && needs.size != static_cast<VkDeviceSize>(size_)) {
    return error(StatusCode::unsupported, "{}: memory of the host has no room for a buffer's end",
                 context_.physical().name);
  }
  const int32_t type = context_.memory_type(needs.memoryTypeBits & allowed, required, preferred);
  if (type < 0) {
    return error(StatusCode::device, "{}: it has no memory of the kind needed",
                 context_.physical().name);
  }
  VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO, more};
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags};
  allocate.allocationSize = needs.size;
  allocate.memoryTypeIndex = static_cast<uint32_t>(type);
  INFER_CHECK(context_.check(vk.vkAllocateMemory(context_.device(), &allocate, nullptr, &memory_),
                             "cannot allocate"));
  INFER_CHECK(
      context_.check(vk.vkBindBufferMemory(context_.device(), handle_, memory_, 0), "cannot bind"));
  VkBufferDeviceAddressInfo info{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
  info.buffer = handle_;
  address_ = vk.vkGetBufferDeviceAddress(context_.device(), &info);
  return {};
}

Result<std::unique_ptr<RawBuffer>> RawBuffer::create(Context& context, int64_t bytes,
                                                     VkMemoryPropertyFlags required,
                                                     VkMemoryPropertyFlags preferred) {
  std::unique_ptr<RawBuffer> made(new RawBuffer(context, bytes));
  INFER_CHECK_R(made->make(nullptr));
  INFER_CHECK_R(made->allocate(UINT32_MAX, required, preferred, nullptr));
  return made;
}

Result<std::unique_ptr<RawBuffer>> RawBuffer::import(Context& context,
                                                     std::span<std::byte> memory) {
  constexpr auto kHost = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  std::unique_ptr<RawBuffer> made(new RawBuffer(context, static_cast<int64_t>(memory.size())));
  VkExternalMemoryBufferCreateInfo external{VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO};
  external.handleTypes = kHost;
  INFER_CHECK_R(made->make(&external));
  VkMemoryHostPointerPropertiesEXT types{VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  INFER_CHECK_R(context.check(context.vk().vkGetMemoryHostPointerPropertiesEXT(
                                  context.device(), kHost, memory.data(), &types),
                              "cannot use the host's memory"));
  VkImportMemoryHostPointerInfoEXT import{VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT};
  import.handleType = kHost;
  import.pHostPointer = memory.data();
  INFER_CHECK_R(
      made->allocate(types.memoryTypeBits, 0, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, &import));
  return made;
}

Result<std::unique_ptr<RawBuffer>> RawBuffer::create_mapped(Context& context, int64_t bytes,
                                                            VkMemoryPropertyFlags preferred) {
  constexpr VkMemoryPropertyFlags kMapped =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  Result<std::unique_ptr<RawBuffer>> made = create(context, bytes, kMapped, preferred);
  // Memory of the device that the host sees may be small, and other programs use it too.
  if (!made && made.error().code() == StatusCode::out_of_memory &&
      (preferred & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0) {
    made = create(context, bytes, kMapped, 0);
  }
  if (!made) return made;
  void* data = nullptr;
  INFER_CHECK_R(context.check(
      context.vk().vkMapMemory(context.device(), (*made)->memory_, 0, VK_WHOLE_SIZE, 0, &data),
      "cannot map memory"));
  (*made)->data_ = static_cast<std::byte*>(data);
  return made;
}

RawBuffer::~RawBuffer() {
  const VolkDeviceTable& vk = context_.vk();
  if (handle_ != VK_NULL_HANDLE) vk.vkDestroyBuffer(context_.device(), handle_, nullptr);
  if (memory_ != VK_NULL_HANDLE) vk.vkFreeMemory(context_.device(), memory_, nullptr);
}

Heap::Heap(Context& context)
    : gpu::Heap<RawBuffer>(
          [&context](int64_t bytes) {
            return RawBuffer::create(context, bytes, 0, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
          },
          kAlignment) {}

}  // namespace infer::vulkan
