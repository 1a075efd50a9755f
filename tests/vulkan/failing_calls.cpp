#include "tests/vulkan/failing_calls.h"

#include <volk.h>

#include <atomic>
#include <utility>

#include "backends/vulkan/instance.h"
#include "tests/call_failures.h"

namespace infer::test {
namespace {

struct State {
  infer::test::CallFailures calls;
  std::atomic<bool> lost{false};
  std::atomic<int64_t> live{0};
  std::atomic<size_t> pipeline_bytes{0};
};

State& state() {
  static State s;
  return s;
}

/// What a call comes to without the driver: VK_SUCCESS, and the driver is asked.
VkResult decide(const char* name, VkResult error) {
  State& s = state();
  const bool now = s.calls.fails(name);
  if (now && error == VK_ERROR_DEVICE_LOST) s.lost = true;
  return now || (s.lost && error == VK_ERROR_DEVICE_LOST) ? error : VK_SUCCESS;
}

/// Stands for one function of a table: `Tag` has its name, its error and whether the driver is
/// called even where the call fails, so that what it stands for has an end.
template <typename Tag, typename Function>
struct Between;
template <typename Tag, typename... Args>
struct Between<Tag, VkResult(VKAPI_PTR*)(Args...)> {
  static inline VkResult(VKAPI_PTR* driver)(Args...) = nullptr;
  static VKAPI_ATTR VkResult VKAPI_CALL call(Args... args) {
    const VkResult failure = decide(Tag::name, Tag::error);
    if (failure != VK_SUCCESS && !Tag::ends) return failure;
    const VkResult result = driver(args...);
    return failure != VK_SUCCESS ? failure : result;
  }
  static void stand(VkResult(VKAPI_PTR*& function)(Args...)) {
    if (function == call) return;
    driver = function;
    function = call;
  }
};

template <typename Tag, typename Function>
void stand(Function& function) {
  Between<Tag, Function>::stand(function);
}

#define INFER_FAILING(function, code, always)      \
  struct Fail##function {                          \
    static constexpr const char* name = #function; \
    static constexpr VkResult error = code;        \
    static constexpr bool ends = always;           \
  }
INFER_FAILING(vkCreateInstance, VK_ERROR_INITIALIZATION_FAILED, false);
INFER_FAILING(vkEnumeratePhysicalDevices, VK_ERROR_INITIALIZATION_FAILED, false);
INFER_FAILING(vkCreateDevice, VK_ERROR_INITIALIZATION_FAILED, false);
INFER_FAILING(vkCreateBuffer, VK_ERROR_OUT_OF_HOST_MEMORY, false);
INFER_FAILING(vkAllocateMemory, VK_ERROR_OUT_OF_DEVICE_MEMORY, false);
INFER_FAILING(vkBindBufferMemory, VK_ERROR_OUT_OF_DEVICE_MEMORY, false);
INFER_FAILING(vkMapMemory, VK_ERROR_OUT_OF_HOST_MEMORY, false);
INFER_FAILING(vkCreateCommandPool, VK_ERROR_OUT_OF_HOST_MEMORY, false);
INFER_FAILING(vkAllocateCommandBuffers, VK_ERROR_OUT_OF_DEVICE_MEMORY, false);
INFER_FAILING(vkCreateSemaphore, VK_ERROR_OUT_OF_HOST_MEMORY, false);
INFER_FAILING(vkGetMemoryHostPointerPropertiesEXT, VK_ERROR_INVALID_EXTERNAL_HANDLE, false);
INFER_FAILING(vkCreateFence, VK_ERROR_OUT_OF_HOST_MEMORY, false);
INFER_FAILING(vkBeginCommandBuffer, VK_ERROR_OUT_OF_HOST_MEMORY, false);
INFER_FAILING(vkEndCommandBuffer, VK_ERROR_OUT_OF_DEVICE_MEMORY, true);
INFER_FAILING(vkResetFences, VK_ERROR_OUT_OF_DEVICE_MEMORY, false);
INFER_FAILING(vkQueueSubmit, VK_ERROR_DEVICE_LOST, false);
INFER_FAILING(vkWaitForFences, VK_ERROR_DEVICE_LOST, true);
INFER_FAILING(vkCreatePipelineLayout, VK_ERROR_OUT_OF_HOST_MEMORY, false);
INFER_FAILING(vkCreatePipelineCache, VK_ERROR_OUT_OF_HOST_MEMORY, false);
INFER_FAILING(vkGetPipelineCacheData, VK_ERROR_OUT_OF_HOST_MEMORY, false);
INFER_FAILING(vkCreateShaderModule, VK_ERROR_OUT_OF_HOST_MEMORY, false);
INFER_FAILING(vkCreateComputePipelines, VK_ERROR_OUT_OF_DEVICE_MEMORY, false);
INFER_FAILING(vkCreateQueryPool, VK_ERROR_OUT_OF_DEVICE_MEMORY, false);
INFER_FAILING(vkGetQueryPoolResults, VK_ERROR_DEVICE_LOST, false);
#undef INFER_FAILING

PFN_vkAllocateMemory allocate = nullptr;
PFN_vkFreeMemory release = nullptr;

VKAPI_ATTR VkResult VKAPI_CALL counted_allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                                const VkAllocationCallbacks* callbacks,
                                                VkDeviceMemory* memory) {
  const VkResult result = allocate(device, info, callbacks, memory);
  if (result == VK_SUCCESS) ++state().live;
  return result;
}

VKAPI_ATTR void VKAPI_CALL counted_free(VkDevice device, VkDeviceMemory memory,
                                        const VkAllocationCallbacks* callbacks) {
  if (memory != VK_NULL_HANDLE) --state().live;
  release(device, memory, callbacks);
}

PFN_vkGetPipelineCacheData pipeline_data = nullptr;

VKAPI_ATTR VkResult VKAPI_CALL claimed_pipeline_data(VkDevice device, VkPipelineCache cache,
                                                     size_t* bytes, void* data) {
  const size_t claimed = state().pipeline_bytes;
  if (claimed == 0 || data != nullptr) return pipeline_data(device, cache, bytes, data);
  *bytes = claimed;
  return VK_SUCCESS;
}

void stand_in_device(VolkDeviceTable& vk) {
  allocate = vk.vkAllocateMemory;
  release = vk.vkFreeMemory;
  vk.vkAllocateMemory = counted_allocate;
  vk.vkFreeMemory = counted_free;
  stand<FailvkCreateBuffer>(vk.vkCreateBuffer);
  stand<FailvkAllocateMemory>(vk.vkAllocateMemory);
  stand<FailvkBindBufferMemory>(vk.vkBindBufferMemory);
  stand<FailvkMapMemory>(vk.vkMapMemory);
  stand<FailvkCreateCommandPool>(vk.vkCreateCommandPool);
  stand<FailvkAllocateCommandBuffers>(vk.vkAllocateCommandBuffers);
  stand<FailvkCreateSemaphore>(vk.vkCreateSemaphore);
  stand<FailvkGetMemoryHostPointerPropertiesEXT>(vk.vkGetMemoryHostPointerPropertiesEXT);
  stand<FailvkCreateFence>(vk.vkCreateFence);
  stand<FailvkBeginCommandBuffer>(vk.vkBeginCommandBuffer);
  stand<FailvkEndCommandBuffer>(vk.vkEndCommandBuffer);
  stand<FailvkResetFences>(vk.vkResetFences);
  stand<FailvkQueueSubmit>(vk.vkQueueSubmit);
  stand<FailvkWaitForFences>(vk.vkWaitForFences);
  stand<FailvkCreatePipelineLayout>(vk.vkCreatePipelineLayout);
  stand<FailvkCreatePipelineCache>(vk.vkCreatePipelineCache);
  stand<FailvkGetPipelineCacheData>(vk.vkGetPipelineCacheData);
  pipeline_data = vk.vkGetPipelineCacheData;
  vk.vkGetPipelineCacheData = claimed_pipeline_data;
  stand<FailvkCreateShaderModule>(vk.vkCreateShaderModule);
  stand<FailvkCreateComputePipelines>(vk.vkCreateComputePipelines);
  stand<FailvkCreateQueryPool>(vk.vkCreateQueryPool);
  stand<FailvkGetQueryPoolResults>(vk.vkGetQueryPoolResults);
}

PFN_vkCreateInstance create_instance = nullptr;

}  // namespace

FailingCalls::FailingCalls() {
  fail_after(-1);
  claim_pipeline_bytes(0);
  (void)volkInitialize();  // finds the global functions, which instances are made with
  create_instance = vkCreateInstance;
  stand<FailvkCreateInstance>(vkCreateInstance);
}

FailingCalls::~FailingCalls() { vkCreateInstance = create_instance; }

OpenDevice FailingCalls::opener(std::function<void(const std::string&)> on_message) const {
  const auto replace = [](vulkan::InstanceFunctions& functions) {
    stand<FailvkEnumeratePhysicalDevices>(functions.vkEnumeratePhysicalDevices);
    stand<FailvkCreateDevice>(functions.vkCreateDevice);
  };
  const vulkan::InstanceOptions options{std::move(on_message), replace, stand_in_device};
  return [options](const std::string& name,
                   const DeviceOptions& device) -> Result<std::unique_ptr<Device>> {
    if (!name.starts_with("vulkan")) return open_device(name, device);
    vulkan::VulkanOptions own;
    INFER_TRY(own.instance, vulkan::Instance::create(options));
    if (!own.instance->devices().empty()) {
      own.tuning = vulkan::Tuning::of(own.instance->devices().front());
      own.tuning->submission = 1;  // so that one fails while others before it are done
    }
    return infer::test::opener(own)(name, device);
  };
}

void FailingCalls::fail_after(int64_t before) {
  state().calls.fail_after(before);
  state().lost = false;
}

void FailingCalls::lose() { state().lost = true; }

void FailingCalls::claim_pipeline_bytes(size_t bytes) { state().pipeline_bytes = bytes; }

int64_t FailingCalls::calls() const { return state().calls.calls(); }

std::vector<int64_t> FailingCalls::places(bool last) const { return state().calls.places(last); }

std::string FailingCalls::failed() const { return state().calls.failed(); }

int64_t FailingCalls::live() const { return state().live; }

}  // namespace infer::test
