#include "tests/kept_devices.h"

#include <volk.h>

#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backends/vulkan/instance.h"

namespace infer::test {
namespace {

struct Kept {
  VkDevice handle = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VolkDeviceTable driver{};
  bool open = true;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  std::map<std::string, VkShaderModule> modules;  ///< by their code
  /// By module and constants.
  std::map<std::pair<VkShaderModule, std::string>, VkPipeline> pipelines;
};

struct State {
  std::mutex mutex;
  std::shared_ptr<vulkan::Instance> instance;
  std::deque<Kept> devices;
  PFN_vkCreateDevice create_device = nullptr;

  Kept& at(VkDevice handle) {
    for (Kept& kept : devices) {
      if (kept.handle == handle) return kept;
    }
    std::abort();
  }
};

State& state() {
  static State s;
  return s;
}

VKAPI_ATTR VkResult VKAPI_CALL open(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                    const VkAllocationCallbacks* callbacks, VkDevice* device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  for (Kept& kept : s.devices) {
    if (kept.open || kept.physical != physical) continue;
    kept.open = true;
    *device = kept.handle;
    return VK_SUCCESS;
  }
  const VkResult result = s.create_device(physical, info, callbacks, device);
  if (result != VK_SUCCESS) return result;
  Kept& kept = s.devices.emplace_back();
  kept.handle = *device;
  kept.physical = physical;
  volkLoadDeviceTable(&kept.driver, *device);
  return result;
}

VKAPI_ATTR void VKAPI_CALL close(VkDevice device, const VkAllocationCallbacks*) {
  const std::lock_guard lock(state().mutex);
  state().at(device).open = false;
}

VKAPI_ATTR VkResult VKAPI_CALL make_layout(VkDevice device, const VkPipelineLayoutCreateInfo* info,
                                           const VkAllocationCallbacks* callbacks,
                                           VkPipelineLayout* layout) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Kept& kept = s.at(device);
  if (kept.layout == VK_NULL_HANDLE) {
    const VkResult result =
        kept.driver.vkCreatePipelineLayout(device, info, callbacks, &kept.layout);
    if (result != VK_SUCCESS) return result;
  }
  *layout = kept.layout;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL keep_layout(VkDevice, VkPipelineLayout, const VkAllocationCallbacks*) {}

VKAPI_ATTR VkResult VKAPI_CALL make_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                           const VkAllocationCallbacks* callbacks,
                                           VkShaderModule* module) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Kept& kept = s.at(device);
  VkShaderModule& made = kept.modules[{reinterpret_cast<const char*>(info->pCode), info->codeSize}];
  if (made == VK_NULL_HANDLE) {
    const VkResult result = kept.driver.vkCreateShaderModule(device, info, callbacks, &made);
    if (result != VK_SUCCESS) return result;
  }
  *module = made;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL keep_module(VkDevice, VkShaderModule, const VkAllocationCallbacks*) {}

VKAPI_ATTR VkResult VKAPI_CALL make_pipeline(VkDevice device, VkPipelineCache cache, uint32_t count,
                                             const VkComputePipelineCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks,
                                             VkPipeline* pipeline) {
  State& s = state();
  const VkSpecializationInfo& constants = *info->stage.pSpecializationInfo;
  const std::pair key(info->stage.module,
                      std::string(static_cast<const char*>(constants.pData), constants.dataSize));
  PFN_vkCreateComputePipelines make = nullptr;
  {
    const std::lock_guard lock(s.mutex);
    const Kept& kept = s.at(device);
    make = kept.driver.vkCreateComputePipelines;
    if (const auto it = kept.pipelines.find(key); it != kept.pipelines.end()) {
      *pipeline = it->second;
      return VK_SUCCESS;
    }
  }
  const VkResult result = make(device, cache, count, info, callbacks, pipeline);
  if (result != VK_SUCCESS) return result;
  const std::lock_guard lock(s.mutex);
  s.at(device).pipelines.emplace(key, *pipeline);
  return result;
}

VKAPI_ATTR void VKAPI_CALL keep_pipeline(VkDevice, VkPipeline, const VkAllocationCallbacks*) {}

void stand_in(VolkDeviceTable& vk) {
  vk.vkDestroyDevice = close;
  vk.vkCreatePipelineLayout = make_layout;
  vk.vkDestroyPipelineLayout = keep_layout;
  vk.vkCreateShaderModule = make_module;
  vk.vkDestroyShaderModule = keep_module;
  vk.vkCreateComputePipelines = make_pipeline;
  vk.vkDestroyPipeline = keep_pipeline;
}

}  // namespace

std::shared_ptr<vulkan::Instance> kept_instance() { return state().instance; }

KeptDevices::KeptDevices() {
  // Devices are the instance's, which would go with the last of those that are open.
  const auto instance = vulkan::Instance::create({.on_message = on_validation_message,
                                                  .replace =
                                                      [](vulkan::InstanceFunctions& vk) {
                                                        state().create_device = vk.vkCreateDevice;
                                                        vk.vkCreateDevice = open;
                                                      },
                                                  .replace_of_device = stand_in});
  if (instance) state().instance = *instance;
}

KeptDevices::~KeptDevices() {
  State& s = state();
  for (const Kept& kept : s.devices) {
    for (const auto& [key, pipeline] : kept.pipelines) {
      kept.driver.vkDestroyPipeline(kept.handle, pipeline, nullptr);
    }
    for (const auto& [code, module] : kept.modules) {
      kept.driver.vkDestroyShaderModule(kept.handle, module, nullptr);
    }
    if (kept.layout != VK_NULL_HANDLE) {
      kept.driver.vkDestroyPipelineLayout(kept.handle, kept.layout, nullptr);
    }
    kept.driver.vkDestroyDevice(kept.handle, nullptr);
  }
  s.devices.clear();
  s.instance.reset();
}

}  // namespace infer::test
