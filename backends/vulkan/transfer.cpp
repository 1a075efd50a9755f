#include "backends/vulkan/transfer.h"

#include <algorithm>
#include <cstring>

namespace infer::vulkan {
namespace {

constexpr VkPipelineStageFlags kBefore =
    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkPipelineStageFlags kAfter = kBefore | VK_PIPELINE_STAGE_HOST_BIT;

VkBufferCopy region(int64_t from, int64_t to, int64_t bytes) {
  return {static_cast<VkDeviceSize>(from), static_cast<VkDeviceSize>(to),
          static_cast<VkDeviceSize>(bytes)};
}

}  // namespace

Result<std::unique_ptr<Transfer>> Transfer::create(Context& context) {
  std::unique_ptr<Transfer> made(new Transfer(context));
  for (Slot& slot : made->slots_) {
    INFER_TRY(slot.staging, RawBuffer::create_mapped(context, gpu::kStagingBytes,
                                                     VK_MEMORY_PROPERTY_HOST_CACHED_BIT));
    slot.commands = std::make_unique<Commands>(context);
    INFER_CHECK_R(slot.commands->create());
  }
  return made;
}

Status Transfer::run(Slot& slot, std::span<const VkBufferCopy> copies, VkBuffer from, VkBuffer to) {
  INFER_CHECK(slot.commands->begin(true));
  const VkCommandBuffer commands = slot.commands->handle();
  full_barrier(context_, commands, kBefore, kBefore);
  context_.vk().vkCmdCopyBuffer(commands, from, to, static_cast<uint32_t>(copies.size()),
                                copies.data());
  full_barrier(context_, commands, VK_PIPELINE_STAGE_TRANSFER_BIT, kAfter);
  INFER_CHECK(slot.commands->end());
  return slot.commands->submit();
}

Status Transfer::upload(const Place& to, const gpu::StagingFill& fill) {
  const std::lock_guard lock(mutex_);
  std::vector<gpu::StagedCopy> parts;
  std::vector<VkBufferCopy> copies;
  const auto step = [&](Slot& slot, bool& more) -> Status {
    INFER_CHECK(slot.commands->wait());
    parts.clear();
    INFER_CHECK(fill({slot.staging->data(), static_cast<size_t>(gpu::kStagingBytes)}, parts));
    more = !parts.empty();
    if (!more) return {};
    copies.clear();
    for (const gpu::StagedCopy& part : parts) {
      copies.push_back(region(part.staged, to.offset + part.to, part.bytes));
    }
    return run(slot, copies, slot.staging->handle(), to.buffer);
  };
  Status status;
  bool more = true;
  for (size_t i = 0; more && status.ok(); i ^= 1) status = step(slots_[i], more);
  for (Slot& slot : slots_) {
    if (Status last = slot.commands->wait(); status.ok()) status = std::move(last);
  }
  return status;
}

Status Transfer::write(std::span<const std::byte> from, const Place& to) {
  int64_t done = 0;
  const auto total = static_cast<int64_t>(from.size());
  return upload(to, [&](std::span<std::byte> out, std::vector<gpu::StagedCopy>& parts) {
    const int64_t bytes = std::min(total - done, gpu::kStagingBytes);
    if (bytes == 0) return Status();
    std::memcpy(out.data(), from.data() + done, static_cast<size_t>(bytes));
    parts.push_back({0, done, bytes});
    done += bytes;
    return Status();
  });
}

Status Transfer::read(const Place& from, std::span<std::byte> to) {
  const std::lock_guard lock(mutex_);
  Slot& slot = slots_[0];
  const auto total = static_cast<int64_t>(to.size());
  for (int64_t done = 0; done < total;) {
    const int64_t bytes = std::min(total - done, gpu::kStagingBytes);
    const VkBufferCopy copy = region(from.offset + done, 0, bytes);
    INFER_CHECK(run(slot, {&copy, 1}, from.buffer, slot.staging->handle()));
    INFER_CHECK(slot.commands->wait());
    std::memcpy(to.data() + done, slot.staging->data(), static_cast<size_t>(bytes));
    done += bytes;
  }
  return {};
}

Status Transfer::copy(const Place& from, const Place& to, int64_t bytes) {
  if (bytes == 0) return {};
  const std::lock_guard lock(mutex_);
  const VkBufferCopy copy = region(from.offset, to.offset, bytes);
  INFER_CHECK(run(slots_[0], {&copy, 1}, from.buffer, to.buffer));
  return slots_[0].commands->wait();
}

}  // namespace infer::vulkan
