#include "tests/shaders/null_device.h"

#include <volk.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <span>

#include "backends/vulkan/exact_code.h"
#include "backends/vulkan/pipelines.h"

namespace infer::vulkan {
namespace {

struct State {
  std::mutex mutex;
  std::map<VkShaderModule, std::string> names;
  CompiledShaders compiled;
  std::atomic<uint64_t> next_handle{1};
  std::atomic<uint64_t> next_address{uint64_t{1} << 32};
  std::map<uint64_t, VkDeviceSize> sizes;  ///< of buffers and memory
  std::map<uint64_t, std::vector<std::byte>> mapped;
  PFN_vkCreateDevice create_device = nullptr;
  VolkDeviceTable driver{};
};

State& state() {
  static State* const s = new State;  // as long as the instance
  return *s;
}

template <typename Handle>
Handle new_handle() {
  return reinterpret_cast<Handle>(state().next_handle++);
}

template <typename Handle>
uint64_t number_of(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}

// ---- The device, with what tells what it compiles

constexpr VkDeviceSize kMemory = VkDeviceSize{16} << 30;

void play_memory(VkPhysicalDeviceMemoryProperties& memory) {
  memory = {};
  memory.memoryTypeCount = memory.memoryHeapCount = 1;
  memory.memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  memory.memoryHeaps[0] = {kMemory, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
}

VKAPI_ATTR void VKAPI_CALL memory_properties(VkPhysicalDevice,
                                             VkPhysicalDeviceMemoryProperties* memory) {
  play_memory(*memory);
}

VKAPI_ATTR void VKAPI_CALL memory_properties2(VkPhysicalDevice,
                                              VkPhysicalDeviceMemoryProperties2* memory) {
  play_memory(memory->memoryProperties);
  auto* const budget = static_cast<VkPhysicalDeviceMemoryBudgetPropertiesEXT*>(memory->pNext);
  if (budget == nullptr) return;
  budget->heapBudget[0] = kMemory;
  budget->heapUsage[0] = 0;
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical,
                                             const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks,
                                             VkDevice* device) {
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR told{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
  told.pNext = const_cast<void*>(info->pNext);
  told.pipelineExecutableInfo = VK_TRUE;
  std::vector<const char*> extensions(info->ppEnabledExtensionNames,
                                      info->ppEnabledExtensionNames + info->enabledExtensionCount);
  extensions.push_back(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  VkDeviceCreateInfo more = *info;
  more.pNext = &told;
  more.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  more.ppEnabledExtensionNames = extensions.data();
  const VkResult result = state().create_device(physical, &more, callbacks, device);
  if (result == VK_SUCCESS) volkLoadDeviceTable(&state().driver, *device);
  return result;
}

// ---- Memory and submissions

VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice, const VkBufferCreateInfo* info,
                                             const VkAllocationCallbacks*, VkBuffer* buffer) {
  *buffer = new_handle<VkBuffer>();
  const std::lock_guard lock(state().mutex);
  state().sizes[number_of(*buffer)] = info->size;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL buffer_needs(VkDevice, VkBuffer buffer, VkMemoryRequirements* needs) {
  const std::lock_guard lock(state().mutex);
  *needs = {state().sizes.at(number_of(buffer)), 256, 1};
}

VKAPI_ATTR VkDeviceAddress VKAPI_CALL buffer_address(VkDevice,
                                                     const VkBufferDeviceAddressInfo* info) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const VkDeviceSize size = s.sizes.at(number_of(info->buffer));
  return s.next_address.fetch_add((size + 0xffff) / 0x10000 * 0x10000);
}

VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks*, VkDeviceMemory* memory) {
  *memory = new_handle<VkDeviceMemory>();
  const std::lock_guard lock(state().mutex);
  state().sizes[number_of(*memory)] = info->allocationSize;
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL map(VkDevice, VkDeviceMemory memory, VkDeviceSize, VkDeviceSize,
                                   VkMemoryMapFlags, void** data) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::vector<std::byte>& bytes = s.mapped[number_of(memory)];
  bytes.resize(s.sizes.at(number_of(memory)));
  *data = bytes.data();
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice, VkDeviceMemory memory,
                                       const VkAllocationCallbacks*) {
  const std::lock_guard lock(state().mutex);
  state().mapped.erase(number_of(memory));
}

/// A function that makes a handle, or does nothing.
template <typename Function>
struct Played;
template <typename... Args>
struct Played<VkResult(VKAPI_PTR*)(Args...)> {
  static VKAPI_ATTR VkResult VKAPI_CALL call(Args... args) {
    const auto make = [](auto arg) {
      using Arg = decltype(arg);
      if constexpr (std::is_same_v<Arg, VkCommandPool*> || std::is_same_v<Arg, VkFence*> ||
                    std::is_same_v<Arg, VkQueryPool*> || std::is_same_v<Arg, VkCommandBuffer*>) {
        *arg = new_handle<std::remove_pointer_t<Arg>>();
      }
    };
    (make(args), ...);
    return VK_SUCCESS;
  }
};
template <typename... Args>
struct Played<void(VKAPI_PTR*)(Args...)> {
  static VKAPI_ATTR void VKAPI_CALL call(Args...) {}
};

// ---- Shaders

std::string name_of(const VkShaderModuleCreateInfo& info) {
  static const auto names = [] {
    std::map<std::vector<uint32_t>, std::string> all;
    for (const Shader& shader : all_shaders()) all.emplace(exact_code(shader.code), shader.name);
    return all;
  }();
  const auto found = names.find({info.pCode, info.pCode + info.codeSize / sizeof(uint32_t)});
  return found == names.end() ? "unknown" : found->second;
}

VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks,
                                             VkShaderModule* module) {
  State& s = state();
  const VkResult result = s.driver.vkCreateShaderModule(device, info, callbacks, module);
  if (result != VK_SUCCESS) return result;
  const std::string name = name_of(*info);
  const std::lock_guard lock(s.mutex);
  s.names[*module] = name;
  return result;
}

template <typename Item, typename List>
std::vector<Item> listed(VkStructureType type, const List& list) {
  uint32_t count = 0;
  list(&count, nullptr);
  std::vector<Item> all(count);
  for (Item& item : all) item.sType = type;
  list(&count, all.data());
  return all;
}

CompiledShader told_by_driver(VkDevice device, VkPipeline pipeline) {
  const VolkDeviceTable& driver = state().driver;
  VkPipelineExecutableInfoKHR which{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR};
  which.pipeline = pipeline;
  CompiledShader compiled;
  for (const auto& told : listed<VkPipelineExecutableStatisticKHR>(
           VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR,
           [&](uint32_t*count, VkPipelineExecutableStatisticKHR*out) {
             driver.vkGetPipelineExecutableStatisticsKHR(device, &which, count, out);
           })) {
    compiled.statistics[told.name] = static_cast<int64_t>(told.value.u64);
  }
  const auto list = [&](uint32_t* count, VkPipelineExecutableInternalRepresentationKHR* out) {
    driver.vkGetPipelineExecutableInternalRepresentationsKHR(device, &which, count, out);
  };
  constexpr auto kRepresentation =
      VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR;
  auto texts = listed<VkPipelineExecutableInternalRepresentationKHR>(kRepresentation, list);
  std::vector<std::string> kept(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    kept[i].resize(texts[i].dataSize);
    texts[i].pData = kept[i].data();
  }
  auto count = static_cast<uint32_t>(texts.size());
  list(&count, texts.data());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (std::strstr(texts[i].name, "Assembly") != nullptr) compiled.code = kept[i].c_str();
  }
  return compiled;
}

VKAPI_ATTR VkResult VKAPI_CALL create_pipeline(VkDevice device, VkPipelineCache, uint32_t count,
                                               const VkComputePipelineCreateInfo* info,
                                               const VkAllocationCallbacks* callbacks,
                                               VkPipeline* pipeline) {
  State& s = state();
  VkComputePipelineCreateInfo more = *info;
  more.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
  const VkResult result =
      s.driver.vkCreateComputePipelines(device, VK_NULL_HANDLE, count, &more, callbacks, pipeline);
  if (result != VK_SUCCESS) return result;
  const VkSpecializationInfo& given = *info->stage.pSpecializationInfo;
  std::vector<uint32_t> constants(given.dataSize / sizeof(uint32_t));
  if (!constants.empty()) std::memcpy(constants.data(), given.pData, given.dataSize);
  CompiledShader compiled = told_by_driver(device, *pipeline);
  const std::lock_guard lock(s.mutex);
  s.compiled.insert_or_assign({s.names.at(info->stage.module), constants}, std::move(compiled));
  return result;
}

void play_device(VolkDeviceTable& vk) {
  vk.vkCreateBuffer = create_buffer;
  vk.vkGetBufferMemoryRequirements = buffer_needs;
  vk.vkGetBufferDeviceAddress = buffer_address;
  vk.vkAllocateMemory = allocate;
  vk.vkMapMemory = map;
  vk.vkFreeMemory = free_memory;
  vk.vkCreateShaderModule = create_module;
  vk.vkCreateComputePipelines = create_pipeline;
#define INFER_PLAY(name) vk.name = Played<PFN_##name>::call
  INFER_PLAY(vkDestroyDevice);
  INFER_PLAY(vkDestroyBuffer);
  INFER_PLAY(vkBindBufferMemory);
  INFER_PLAY(vkCreateCommandPool);
  INFER_PLAY(vkDestroyCommandPool);
  INFER_PLAY(vkAllocateCommandBuffers);
  INFER_PLAY(vkBeginCommandBuffer);
  INFER_PLAY(vkEndCommandBuffer);
  INFER_PLAY(vkCreateFence);
  INFER_PLAY(vkDestroyFence);
  INFER_PLAY(vkGetFenceStatus);
  INFER_PLAY(vkResetFences);
  INFER_PLAY(vkWaitForFences);
  INFER_PLAY(vkQueueSubmit);
  INFER_PLAY(vkDeviceWaitIdle);
  INFER_PLAY(vkCreateQueryPool);
  INFER_PLAY(vkDestroyQueryPool);
  INFER_PLAY(vkGetQueryPoolResults);
  INFER_PLAY(vkCmdBindPipeline);
  INFER_PLAY(vkCmdPushConstants);
  INFER_PLAY(vkCmdDispatchBase);
  INFER_PLAY(vkCmdCopyBuffer);
  INFER_PLAY(vkCmdPipelineBarrier);
  INFER_PLAY(vkCmdResetQueryPool);
  INFER_PLAY(vkCmdWriteTimestamp);
#undef INFER_PLAY
}

void play_instance(InstanceFunctions& vk) {
  state().create_device = vk.vkCreateDevice;
  vk.vkCreateDevice = create_device;
  vk.vkGetPhysicalDeviceMemoryProperties = memory_properties;
  vk.vkGetPhysicalDeviceMemoryProperties2 = memory_properties2;
}

}  // namespace

Result<std::shared_ptr<Instance>> null_instance() {
  static auto* const made = new Result<std::shared_ptr<Instance>>(
      Instance::create({.replace = play_instance, .replace_of_device = play_device}));
  return *made;
}

const CompiledShaders& compiled_shaders() { return state().compiled; }

void forget_shaders() { state().compiled.clear(); }

}  // namespace infer::vulkan
