#include "backends/vulkan/step_memory.h"

#include <algorithm>

namespace infer::vulkan {

Result<std::unique_ptr<StepMemory>> StepMemory::create(Context& context, const Segment& segment,
                                                       VkDeviceAddress tables) {
  std::unique_ptr<StepMemory> made(new StepMemory(context, segment, tables));
  INFER_TRY(made->buffer_, RawBuffer::create_mapped(context, made->contents_.bytes(),
                                                    VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT));
  return made;
}

Status StepMemory::write(const Bindings& bindings) {
  const int64_t needed = contents_.page_bytes(bindings);
  if (needed > 0 && (pages_ == nullptr || pages_->size() < needed)) {
    pages_.reset();
    INFER_TRY_S(pages_, RawBuffer::create_mapped(context_, std::max<int64_t>(needed * 2, 4096),
                                                 VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT));
  }
  if (pages_ == nullptr) {
    contents_.write(bindings, buffer_->data(), nullptr, 0);
  } else {
    contents_.write(bindings, buffer_->data(), pages_->data(), pages_->address());
  }
  return {};
}

}  // namespace infer::vulkan
