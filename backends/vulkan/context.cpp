#include "backends/vulkan/context.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include "backends/vulkan/cooperative_matrix.h"
#include "engine/backend/profiler.h"

namespace infer::vulkan {

Result<std::unique_ptr<Context>> Context::create(std::shared_ptr<Instance> instance,
                                                 const PhysicalDevice& physical) {
  INFER_CHECK_R(physical.usable);
  std::unique_ptr<Context> context(new Context(std::move(instance), physical));
  const float priorities[] = {1, 1};
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = physical.queue_family;
  queue.queueCount = std::min<uint32_t>(physical.queues, std::size(priorities));
  queue.pQueuePriorities = priorities;
  VkPhysicalDeviceSubgroupSizeControlFeatures sizes{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  sizes.subgroupSizeControl = VK_TRUE;
  sizes.computeFullSubgroups = VK_TRUE;
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  if (physical.choose_subgroup) v12.pNext = &sizes;
  VkPhysicalDeviceShaderIntegerDotProductFeatures dots{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES, v12.pNext};
  dots.shaderIntegerDotProduct = VK_TRUE;
  if (physical.integer_dots) v12.pNext = &dots;
  CooperativeMatrixFeatures matrices;
  if (physical.matrices.given()) {
    matrices.next = std::exchange(v12.pNext, &matrices);
    matrices.cooperative_matrix = VK_TRUE;
    v12.shaderFloat16 = VK_TRUE;
    v12.vulkanMemoryModel = VK_TRUE;
    v12.vulkanMemoryModelDeviceScope = VK_TRUE;  // that of atomics in the other shaders
  }
  v12.storageBuffer8BitAccess = VK_TRUE;
  v12.bufferDeviceAddress = VK_TRUE;
  v12.timelineSemaphore = VK_TRUE;  // every device of Vulkan 1.2 has them
  v12.scalarBlockLayout = VK_TRUE;
  v12.shaderSubgroupExtendedTypes = VK_TRUE;
  VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12};
  v11.storageBuffer16BitAccess = VK_TRUE;
  VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v11};
  features.features.shaderInt64 = VK_TRUE;
  std::vector<const char*> extensions;
  if (physical.memory_budget) extensions.push_back(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  if (physical.integer_dots && physical.integer_dots_extend) {
    extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  }
  if (physical.matrices.given()) extensions.push_back(kMatrixExtension);
  if (physical.import_alignment > 0) {
    extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  }
  VkDeviceCreateInfo create{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features};
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queue;
  create.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  create.ppEnabledExtensionNames = extensions.data();
  INFER_CHECK_R(context->check(
      physical.vk->vkCreateDevice(physical.handle, &create, nullptr, &context->device_),
      "cannot open the device"));
  volkLoadDeviceTable(&context->vk_, context->device_);
  const InstanceOptions& options = context->instance_->options();
  if (options.replace_of_device) options.replace_of_device(context->vk_);
  for (uint32_t i = 0; i < std::size(context->queues_); ++i) {
    context->vk_.vkGetDeviceQueue(context->device_, physical.queue_family,
                                  std::min(i, queue.queueCount - 1), &context->queues_[i]);
  }
  return context;
}

Context::~Context() {
  if (device_ == VK_NULL_HANDLE) return;
  vk_.vkDeviceWaitIdle(device_);
  vk_.vkDestroyDevice(device_, nullptr);
}

Status Context::submit(const VkSubmitInfo& info, VkFence fence, Queue queue) {
  const std::lock_guard lock(queue_mutex_);
  const VkQueue to = queues_[static_cast<size_t>(queue)];
  return check(vk_.vkQueueSubmit(to, 1, &info, fence), "cannot submit work");
}

Status Context::submit(VkCommandBuffer commands, VkFence fence, Queue queue) {
  VkSubmitInfo submitted{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submitted.commandBufferCount = 1;
  submitted.pCommandBuffers = &commands;
  return submit(submitted, fence, queue);
}

Status Context::signal(VkSemaphore timeline, uint64_t value, Queue queue) {
  VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &value;
  VkSubmitInfo submitted{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
  submitted.signalSemaphoreCount = 1;
  submitted.pSignalSemaphores = &timeline;
  return submit(submitted, VK_NULL_HANDLE, queue);
}

Status Context::hold(VkSemaphore timeline, uint64_t value, Queue queue) {
  constexpr VkPipelineStageFlags kAll = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
  VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  values.waitSemaphoreValueCount = 1;
  values.pWaitSemaphoreValues = &value;
  VkSubmitInfo submitted{VK_STRUCTURE_TYPE_SUBMIT_INFO, &values};
  submitted.waitSemaphoreCount = 1;
  submitted.pWaitSemaphores = &timeline;
  submitted.pWaitDstStageMask = &kAll;
  return submit(submitted, VK_NULL_HANDLE, queue);
}

void Context::wait_idle() {
  const std::lock_guard lock(queue_mutex_);
  vk_.vkDeviceWaitIdle(device_);
}

Status Context::wait(VkFence fence) {
  // A thread that sleeps in the driver wakes late: first it asks, for as long as a step may take. A
  // processor computes the step itself.
  constexpr int64_t kPatience = 20'000'000;  // nanoseconds
  const int64_t begin = profile_clock();
  while (!physical_.processor && profile_clock() - begin < kPatience) {
    const VkResult done = vk_.vkGetFenceStatus(device_, fence);
    if (done != VK_NOT_READY) return check(done, "waiting for work");
    std::this_thread::yield();
  }
  return check(vk_.vkWaitForFences(device_, 1, &fence, VK_TRUE, UINT64_MAX), "waiting for work");
}

int32_t Context::memory_type(uint32_t allowed, VkMemoryPropertyFlags required,
                             VkMemoryPropertyFlags preferred) const {
  int32_t best = -1;
  int best_score = -1;
  for (uint32_t i = 0; i < physical_.memory.memoryTypeCount; ++i) {
    const VkMemoryPropertyFlags flags = physical_.memory.memoryTypes[i].propertyFlags;
    if ((allowed >> i & 1) == 0 || (flags & required) != required) continue;
    const int score = std::popcount(flags & preferred);
    if (score <= best_score) continue;
    best = static_cast<int32_t>(i);
    best_score = score;
  }
  return best;
}

Commands::~Commands() {
  const VolkDeviceTable& vk = context_.vk();
  if (submitted_) vk.vkWaitForFences(context_.device(), 1, &fence_, VK_TRUE, UINT64_MAX);
  if (fence_ != VK_NULL_HANDLE) vk.vkDestroyFence(context_.device(), fence_, nullptr);
  if (pool_ != VK_NULL_HANDLE) vk.vkDestroyCommandPool(context_.device(), pool_, nullptr);
}

Status Commands::create() {
  const VolkDeviceTable& vk = context_.vk();
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = context_.physical().queue_family;
  INFER_CHECK(context_.check(vk.vkCreateCommandPool(context_.device(), &pool, nullptr, &pool_),
                             "cannot make a command pool"));
  VkFenceCreateInfo fence{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  return context_.check(vk.vkCreateFence(context_.device(), &fence, nullptr, &fence_),
                        "cannot make a fence");
}

Status Commands::begin(bool once) {
  INFER_CHECK(wait());  // a wait before may have failed
  usage_ = once ? VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT : 0;
  parts_ = 0;
  return begin_part();
}

Status Commands::begin_part() {
  if (parts_ == handles_.size()) {
    VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    allocate.commandPool = pool_;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    VkCommandBuffer made = VK_NULL_HANDLE;
    INFER_CHECK(
        context_.check(context_.vk().vkAllocateCommandBuffers(context_.device(), &allocate, &made),
                       "cannot make a command buffer"));
    handles_.push_back(made);
  }
  ++parts_;
  VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  begin.flags = usage_;
  return context_.check(context_.vk().vkBeginCommandBuffer(handle(), &begin), "cannot record");
}

Status Commands::divide() {
  INFER_CHECK(end());
  return begin_part();
}

Status Commands::end() {
  return context_.check(context_.vk().vkEndCommandBuffer(handle()), "cannot record");
}

Status Commands::submit() {
  INFER_CHECK(wait());
  INFER_CHECK(context_.check(context_.vk().vkResetFences(context_.device(), 1, &fence_),
                             "cannot reset a fence"));
  for (size_t part = 0; part < parts_; ++part) {
    const VkFence fence = part + 1 == parts_ ? fence_ : VK_NULL_HANDLE;
    Status status = context_.submit(handles_[part], fence, queue_);
    if (status.ok()) continue;
    if (part > 0) context_.wait_idle();  // nothing else says when those before are done
    return status;
  }
  submitted_ = true;
  return {};
}

Status Commands::wait() {
  if (!submitted_) return {};
  INFER_CHECK(context_.wait(fence_));
  submitted_ = false;
  return {};
}

Marks::~Marks() {
  if (timeline_ != VK_NULL_HANDLE) {
    context_.vk().vkDestroySemaphore(context_.device(), timeline_, nullptr);
  }
}

Status Marks::create() {
  VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo create{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type};
  return context_.check(
      context_.vk().vkCreateSemaphore(context_.device(), &create, nullptr, &timeline_),
      "cannot make a semaphore");
}

Status Marks::set(Queue queue) {
  INFER_CHECK(context_.signal(timeline_, last_ + 1, queue));
  ++last_;
  return {};
}

Status Marks::hold(Queue queue) {
  return last_ == 0 ? Status() : context_.hold(timeline_, last_, queue);
}

void full_barrier(const Context& context, VkCommandBuffer commands, VkPipelineStageFlags before,
                  VkPipelineStageFlags after) {
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  // Between shaders fewer caches have to be emptied.
  if (before == VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT && after == before) {
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
  } else {
    barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  }
  context.vk().vkCmdPipelineBarrier(commands, before, after, 0, 1, &barrier, 0, nullptr, 0,
                                    nullptr);
}

}  // namespace infer::vulkan
