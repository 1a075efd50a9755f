// An open logical device: its functions, its queues, command buffers, and what makes a queue wait.
#pragma once

#include <volk.h>

#include <memory>
#include <mutex>

#include "backends/vulkan/instance.h"

namespace infer::vulkan {

/// One for programs and copies that somebody waits for, one for weights that come meanwhile. A
/// device with a single queue has it for both.
enum class Queue : uint8_t { programs, streams };

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
  Status submit(VkCommandBuffer commands, VkFence fence, Queue queue);
  /// The queue reaches this value of a timeline semaphore once all that was submitted before is
  /// done.
  Status signal(VkSemaphore timeline, uint64_t value, Queue queue);
  /// What is submitted from now on begins once this value is reached.
  Status hold(VkSemaphore timeline, uint64_t value, Queue queue);
  Status wait(VkFence fence);
  /// Until all queues are empty. A device that was lost has nothing to wait for.
  void wait_idle();

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
  Status submit(const VkSubmitInfo& info, VkFence fence, Queue queue);

  VkQueue queues_[2] = {};
  std::mutex queue_mutex_;
};

/// A command buffer with its pool and a fence.
class Commands {
 public:
  explicit Commands(Context& context, Queue queue = Queue::programs)
      : context_(context), queue_(queue) {}
  ~Commands();
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  Status create();
  /// Begins a new recording. `once`: it will be submitted only once.
  Status begin(bool once);
  /// What is recorded from here on is submitted by itself, behind what was recorded before. A
  /// driver's watchdog takes the time of each submission.
  Status divide();
  Status end();
  Status submit();
  /// Waits until the submitted commands are done. Returns at once if there are none.
  Status wait();
  /// What is recorded now.
  VkCommandBuffer handle() const { return handles_[parts_ - 1]; }
  size_t parts() const { return parts_; }

 private:
  Context& context_;
  Queue queue_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  Status begin_part();

  std::vector<VkCommandBuffer> handles_;
  size_t parts_ = 0;  ///< of the recording
  VkCommandBufferUsageFlags usage_ = 0;
  VkFence fence_ = VK_NULL_HANDLE;
  bool submitted_ = false;
};

/// Marks in what is submitted, for which a queue can wait.
class Marks {
 public:
  explicit Marks(Context& context) : context_(context) {}
  ~Marks();
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;

  Status create();
  /// A mark behind what the queue has been given.
  Status set(Queue queue);
  /// What this queue is given from now on begins when all is done before the last mark. At once if
  /// there is none.
  Status hold(Queue queue);

 private:
  Context& context_;
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  uint64_t last_ = 0;
};

/// A barrier: commands after it see all writes of the commands before it, in these stages.
void full_barrier(const Context& context, VkCommandBuffer commands, VkPipelineStageFlags before,
                  VkPipelineStageFlags after);

}  // namespace infer::vulkan
