// An open logical device: its functions, its only queue, and command buffers.
#pragma once

#include <volk.h>

#include <memory>
#include <mutex>

#include "backends/vulkan/instance.h"

namespace infer::vulkan {

/// Thread-safe.
class Context {
 public:
  static Result<std::unique_ptr<Context>> create(std::shared_ptr<Instance> instance,
                                                 const PhysicalDevice& physical);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const PhysicalDevice& physical() const { return physical_; }
  VkDevice device() const { return device_; }
  const VolkDeviceTable& vk() const { return vk_; }

  /// The Status of a Vulkan call's result.
  Status check(VkResult result, const char* what) const {
    return result == VK_SUCCESS ? Status() : failure(result, physical_.name, what);
  }
  /// Submits a recorded command buffer; `fence` is signalled once it is done.
  Status submit(VkCommandBuffer commands, VkFence fence);
  Status wait(VkFence fence);

  /// The index of a memory type out of `allowed` that has all `required` properties and as many of
  /// `preferred` as possible; -1 if there is none.
  int32_t memory_type(uint32_t allowed, VkMemoryPropertyFlags required,
                      VkMemoryPropertyFlags preferred) const;

 private:
  explicit Context(std::shared_ptr<Instance> instance, const PhysicalDevice& physical)
      : instance_(std::move(instance)), physical_(physical) {}

  std::shared_ptr<Instance> instance_;
  PhysicalDevice physical_;
  VkDevice device_ = VK_NULL_HANDLE;
  VolkDeviceTable vk_{};
  VkQueue queue_ = VK_NULL_HANDLE;
  std::mutex queue_mutex_;
};

/// A command buffer with its pool and a fence.
class Commands {
 public:
  explicit Commands(Context& context) : context_(context) {}
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  Status create();
  /// Begins a new recording. `once`: it will be submitted only once.
  Status begin(bool once);
  Status end();
  Status submit();
  /// Waits until the submitted commands are done. Returns at once if there are none.
  Status wait();
  VkCommandBuffer handle() const { return handle_; }

 private:
  Context& context_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer handle_ = VK_NULL_HANDLE;
  VkFence fence_ = VK_NULL_HANDLE;
  bool submitted_ = false;
};

/// A barrier: commands after it see all writes of the commands before it, in these stages.
void full_barrier(const Context& context, VkCommandBuffer commands, VkPipelineStageFlags before,
                  VkPipelineStageFlags after);

}  // namespace infer::vulkan
