#include "backends/vulkan/memory.h"

namespace infer::vulkan {
Result<std::unique_ptr<RawBuffer>> RawBuffer::create(Context& context, int64_t bytes,
                                                     VkMemoryPropertyFlags required,
                                                     VkMemoryPropertyFlags preferred) {
  const PhysicalDevice& physical = context.physical();
  if (bytes > physical.largest_allocation) {
    return fail(StatusCode::out_of_memory,
                "{}: a buffer of {} bytes exceeds the limit of its driver, {}", physical.name,
                bytes, physical.largest_allocation);
  }
  const VolkDeviceTable& vk = context.vk();
  std::unique_ptr<RawBuffer> made(new RawBuffer(context, bytes));
  VkBufferCreateInfo create{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  create.size = static_cast<VkDeviceSize>(bytes);
  create.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  INFER_CHECK_R(context.check(vk.vkCreateBuffer(context.device(), &create, nullptr, &made->handle_),
                              "cannot make a buffer"));
  VkMemoryRequirements needs;
  vk.vkGetBufferMemoryRequirements(context.device(), made->handle_, &needs);
  const int32_t type = context.memory_type(needs.memoryTypeBits, required, preferred);
  if (type < 0) {
    return fail(StatusCode::device, "{}: it has no memory of the kind needed", physical.name);
  }
  VkMemoryAllocateFlagsInfo flags{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO};
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &flags};
  allocate.allocationSize = needs.size;
  allocate.memoryTypeIndex = static_cast<uint32_t>(type);
  INFER_CHECK_R(
      context.check(vk.vkAllocateMemory(context.device(), &allocate, nullptr, &made->memory_),
                    "cannot allocate"));
  INFER_CHECK_R(context.check(
      vk.vkBindBufferMemory(context.device(), made->handle_, made->memory_, 0), "cannot bind"));
  VkBufferDeviceAddressInfo info{VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO};
  info.buffer = made->handle_;
  made->address_ = vk.vkGetBufferDeviceAddress(context.device(), &info);
  return made;
}

Result<std::unique_ptr<RawBuffer>> RawBuffer::create_mapped(Context& context, int64_t bytes,
                                                            VkMemoryPropertyFlags preferred) {
  INFER_TRY(auto made,
            create(context, bytes,
                   VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                   preferred));
  void* data = nullptr;
  INFER_CHECK_R(context.check(
      context.vk().vkMapMemory(context.device(), made->memory_, 0, VK_WHOLE_SIZE, 0, &data),
      "cannot map memory"));
  made->data_ = static_cast<std::byte*>(data);
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
