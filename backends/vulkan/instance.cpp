#include "backends/vulkan/instance.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "backends/vulkan/cooperative_matrix.h"
#include "backends/vulkan/tuning.h"
#include "engine/core/log.h"

namespace infer::vulkan {
namespace {

constexpr const char* kValidationLayer = "VK_LAYER_KHRONOS_validation";
/// Where a device has several sizes of subgroup: the one most hardware has. On Intel's GPUs a lane
/// of a longer one has too few registers.
constexpr uint32_t kUsualSubgroup = 32;
constexpr uint32_t kIntelSubgroup = 16;
constexpr uint32_t kIntel = 0x8086;

/// Volk finds its global functions, one instance at a time.
std::mutex& loader_mutex() {
  static std::mutex mutex;
  return mutex;
}

VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                          VkDebugUtilsMessageTypeFlagsEXT,
                                          const VkDebugUtilsMessengerCallbackDataEXT* data,
                                          void* user) {
  static_cast<const InstanceOptions*>(user)->on_message(data->pMessage);
  return VK_FALSE;
}

bool has_loader() {
  static const bool found = volkInitialize() == VK_SUCCESS;
  return found;
}

bool has_layer(const char* name) {
  uint32_t count = 0;
  vkEnumerateInstanceLayerProperties(&count, nullptr);
  std::vector<VkLayerProperties> layers(count);
  vkEnumerateInstanceLayerProperties(&count, layers.data());
  return std::ranges::any_of(
      layers, [&](const VkLayerProperties& l) { return std::strcmp(l.layerName, name) == 0; });
}

bool has_extension(const PhysicalDevice& device, const char* name) {
  uint32_t count = 0;
  device.vk->vkEnumerateDeviceExtensionProperties(device.handle, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> all(count);
  device.vk->vkEnumerateDeviceExtensionProperties(device.handle, nullptr, &count, all.data());
  return std::ranges::any_of(
      all, [&](const VkExtensionProperties& e) { return std::strcmp(e.extensionName, name) == 0; });
}

/// The first family that computes, preferably one that does not draw as well.
bool find_queue(PhysicalDevice& device) {
  uint32_t count = 0;
  device.vk->vkGetPhysicalDeviceQueueFamilyProperties(device.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  device.vk->vkGetPhysicalDeviceQueueFamilyProperties(device.handle, &count, families.data());
  bool found = false;
  for (uint32_t i = 0; i < count; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0) continue;
    const bool only_computes = (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) == 0;
    if (found && !only_computes) continue;
    device.queue_family = i;
    device.queues = families[i].queueCount;
    device.timestamp_bits = families[i].timestampValidBits;
    found = true;
    if (only_computes) break;
  }
  return found;
}

/// Products of four signed bytes in one operation.
void find_integer_dots(PhysicalDevice& device, uint32_t version, VkSubgroupFeatureFlags subgroup) {
  device.integer_dots_extend = version < VK_API_VERSION_1_3;
  if (device.integer_dots_extend &&
      !has_extension(device, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME)) {
    return;
  }
  VkPhysicalDeviceShaderIntegerDotProductFeatures feature{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &feature};
  device.vk->vkGetPhysicalDeviceFeatures2(device.handle, &features);
  VkPhysicalDeviceShaderIntegerDotProductProperties speed{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &speed};
  device.vk->vkGetPhysicalDeviceProperties2(device.handle, &properties);
  constexpr uint32_t kLeastLanes = 8;  // that round 32 activations together
  device.integer_dots = feature.shaderIntegerDotProduct != VK_FALSE &&
                        (subgroup & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) != 0 &&
                        device.subgroup >= kLeastLanes;
  device.fast_integer_dots =
      device.integer_dots && speed.integerDotProduct4x8BitPackedSignedAccelerated != VK_FALSE;
}

/// Cooperative matrices of the shapes that backend.cmake compiles, the best first.
void find_matrices(PhysicalDevice& device, const VkPhysicalDeviceVulkan12Features& v12,
                   VkSubgroupFeatureFlags subgroup) {
  constexpr MatrixShape kShapes[] = {{16, 16, 16}, {8, 16, 16}, {8, 8, 8}};
  if (v12.shaderFloat16 == VK_FALSE || v12.vulkanMemoryModel == VK_FALSE ||
      v12.vulkanMemoryModelDeviceScope == VK_FALSE ||
      (subgroup & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) == 0 ||
      !has_extension(device, kMatrixExtension)) {
    return;
  }
  CooperativeMatrixFeatures feature;
  VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &feature};
  device.vk->vkGetPhysicalDeviceFeatures2(device.handle, &features);
  const auto list = reinterpret_cast<ListCooperativeMatrices>(device.vk->list_matrices);
  if (feature.cooperative_matrix == VK_FALSE || list == nullptr) return;
  uint32_t count = 0;
  if (list(device.handle, &count, nullptr) != VK_SUCCESS) return;
  std::vector<CooperativeMatrixProperties> all(count);
  if (list(device.handle, &count, all.data()) != VK_SUCCESS) return;
  all.resize(count);
  for (const MatrixShape& shape : kShapes) {
    for (const CooperativeMatrixProperties& p : all) {
      if (p.m != shape.m || p.n != shape.n || p.k != shape.k || p.saturating != VK_FALSE) continue;
      if (p.a != kFloat16 || p.b != kFloat16 || p.c != kFloat32 || p.result != kFloat32) continue;
      if (p.scope != kSubgroupScope) continue;
      device.matrices = shape;
      return;
    }
  }
}

Status check_features(PhysicalDevice& device, uint32_t version) {
  const auto missing = [&](const char* what) {
    return error(StatusCode::unsupported, "{} ({}) cannot be used: it has no {}", device.name,
                 device.description, what);
  };
  if (version < VK_API_VERSION_1_2) return missing("Vulkan 1.2");
  VkPhysicalDeviceSubgroupSizeControlFeatures sizes{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceVulkan11Features v11{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, &v12};
  VkPhysicalDeviceFeatures2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v11};
  const bool size_control = version >= VK_API_VERSION_1_3;
  if (size_control) v12.pNext = &sizes;
  device.vk->vkGetPhysicalDeviceFeatures2(device.handle, &all);
  if (all.features.shaderInt64 == VK_FALSE) return missing("64-bit integers in shaders");
  if (v11.storageBuffer16BitAccess == VK_FALSE) return missing("16-bit storage");
  if (v12.storageBuffer8BitAccess == VK_FALSE) return missing("8-bit storage");
  if (v12.bufferDeviceAddress == VK_FALSE) return missing("buffer device addresses");
  if (v12.shaderSubgroupExtendedTypes == VK_FALSE) return missing("64-bit subgroup operations");
  if (v12.scalarBlockLayout == VK_FALSE) return missing("scalar block layout");

  VkPhysicalDeviceSubgroupSizeControlProperties range{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  VkPhysicalDeviceMaintenance4Properties buffers{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_4_PROPERTIES, &range};
  VkPhysicalDeviceMaintenance3Properties largest{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
      size_control ? &buffers : nullptr};
  VkPhysicalDeviceSubgroupProperties subgroup{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                                              &largest};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &subgroup};
  device.vk->vkGetPhysicalDeviceProperties2(device.handle, &properties);
  // Of drivers older than Vulkan 1.3 nothing is known about buffers.
  const VkDeviceSize buffer = buffers.maxBufferSize > 0 ? buffers.maxBufferSize : VK_WHOLE_SIZE;
  device.largest_allocation = static_cast<int64_t>(
      std::min({largest.maxMemoryAllocationSize, buffer, VkDeviceSize{1} << 62}));
  constexpr VkSubgroupFeatureFlags kNeeded = VK_SUBGROUP_FEATURE_BASIC_BIT |
                                             VK_SUBGROUP_FEATURE_ARITHMETIC_BIT |
                                             VK_SUBGROUP_FEATURE_BALLOT_BIT;
  if ((subgroup.supportedOperations & kNeeded) != kNeeded ||
      (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) == 0) {
    return missing("subgroup arithmetic and broadcasts in compute shaders");
  }
  device.subgroup = subgroup.subgroupSize;
  if (size_control && sizes.subgroupSizeControl != VK_FALSE &&
      sizes.computeFullSubgroups != VK_FALSE &&
      (range.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0) {
    device.choose_subgroup = true;
    const uint32_t wanted = device.driver.vendor == kIntel ? kIntelSubgroup : kUsualSubgroup;
    device.subgroup = std::clamp(wanted, range.minSubgroupSize, range.maxSubgroupSize);
  }
  find_integer_dots(device, version, subgroup.supportedOperations);
  find_matrices(device, v12, subgroup.supportedOperations);
  return {};
}

/// Where it is on the bus; empty if the driver does not say.
std::string pci_of(const PhysicalDevice& device) {
  if (!has_extension(device, VK_EXT_PCI_BUS_INFO_EXTENSION_NAME)) return {};
  VkPhysicalDevicePCIBusInfoPropertiesEXT pci{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &pci};
  device.vk->vkGetPhysicalDeviceProperties2(device.handle, &properties);
  return fmt::format("{:04x}:{:02x}:{:02x}.{}", pci.pciDomain, pci.pciBus, pci.pciDevice,
                     pci.pciFunction);
}

/// 0: it imports none, or not by pages.
int64_t import_alignment_of(const PhysicalDevice& device) {
  if (!has_extension(device, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME)) return 0;
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &host};
  device.vk->vkGetPhysicalDeviceProperties2(device.handle, &properties);
  constexpr VkDeviceSize kPage = 4096;
  const VkDeviceSize alignment = host.minImportedHostPointerAlignment;
  return alignment > 0 && kPage % alignment == 0 ? static_cast<int64_t>(kPage) : 0;
}

PhysicalDevice describe(const InstanceFunctions& vk, VkPhysicalDevice handle) {
  PhysicalDevice device;
  device.vk = &vk;
  device.handle = handle;
  VkPhysicalDeviceDriverProperties driver{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &driver};
  vk.vkGetPhysicalDeviceProperties2(handle, &properties);
  device.description =
      fmt::format("{}, {}", properties.properties.deviceName,
                  driver.driverInfo[0] != '\0' ? driver.driverInfo : driver.driverName);
  device.driver = {properties.properties.vendorID, properties.properties.deviceID,
                   properties.properties.driverVersion};
  std::copy_n(properties.properties.pipelineCacheUUID, VK_UUID_SIZE, device.driver.pipelines);
  device.type = properties.properties.deviceType;
  device.processor = properties.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  device.limits = properties.properties.limits;
  vk.vkGetPhysicalDeviceMemoryProperties(handle, &device.memory);
  device.memory_budget = has_extension(device, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  device.import_alignment = import_alignment_of(device);
  device.pci = pci_of(device);
  return device;
}

bool is_local(const VkMemoryHeap& heap) {
  return (heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0;
}

}  // namespace

int64_t PhysicalDevice::memory_total() const {
  VkDeviceSize total = 0;
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    if (is_local(memory.memoryHeaps[i])) total += memory.memoryHeaps[i].size;
  }
  return static_cast<int64_t>(total);
}

int64_t PhysicalDevice::memory_free() const {
  if (!memory_budget) return memory_total();
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
  VkPhysicalDeviceMemoryProperties2 now{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
                                        &budget};
  vk->vkGetPhysicalDeviceMemoryProperties2(handle, &now);
  VkDeviceSize left = 0;
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    if (!is_local(memory.memoryHeaps[i])) continue;
    left += budget.heapBudget[i] - std::min(budget.heapBudget[i], budget.heapUsage[i]);
  }
  return static_cast<int64_t>(left);
}

DeviceInfo PhysicalDevice::info() const {
  DeviceInfo info;
  info.name = name;
  info.description = description;
  info.pci = pci;
  info.memory_total = memory_total();
  info.memory_free = memory_free();
  if (processor) {
    info.memory = MemoryKind::host;
  } else if (type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU) {
    info.memory = MemoryKind::shared;
  }
  info.usable = usable;
  if (!usable.ok()) return info;
  info.limits = {{"largest_allocation_bytes", largest_allocation},
                 {"shared_memory_bytes", limits.maxComputeSharedMemorySize},
                 {"workgroup", limits.maxComputeWorkGroupInvocations},
                 {"subgroup", subgroup}};
  if (memory_budget) info.features.emplace_back("memory budget");
  if (integer_dots) {
    info.features.emplace_back(fast_integer_dots ? "integer dot products"
                                                 : "integer dot products (not accelerated)");
  }
  if (matrices.given()) {
    info.features.push_back(fmt::format("cooperative matrices {}{}", matrices.name(),
                                        Tuning::of(*this).matrices ? "" : " (not used)"));
  }
  if (timestamp_bits > 0) info.features.emplace_back("timestamps");
  return info;
}

int32_t best_device(std::span<const PhysicalDevice> devices) {
  const auto rank = [](const PhysicalDevice& device) {
    switch (device.type) {
      case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU: return 3;
      case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU: return 2;
      case VK_PHYSICAL_DEVICE_TYPE_CPU: return 0;
      default: return 1;
    }
  };
  const PhysicalDevice* best = nullptr;
  for (const PhysicalDevice& device : devices) {
    if (!device.usable.ok()) continue;
    const auto key = [&](const PhysicalDevice& d) { return std::pair(rank(d), d.memory_total()); };
    if (best == nullptr || key(device) > key(*best)) best = &device;
  }
  return best == nullptr ? -1 : static_cast<int32_t>(best - devices.data());
}

Result<std::shared_ptr<Instance>> Instance::get() {
  static std::mutex mutex;
  static std::weak_ptr<Instance> shared;
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<Instance> alive = shared.lock()) return alive;
  INFER_TRY(std::shared_ptr<Instance> made, create({}));
  shared = made;
  return made;
}

Result<std::shared_ptr<Instance>> Instance::create(InstanceOptions options) {
  std::shared_ptr<Instance> made(new Instance(std::move(options)));
  INFER_CHECK_R(made->make());
  return made;
}

bool Instance::can_validate() {
  const std::lock_guard lock(loader_mutex());
  return has_loader() && has_layer(kValidationLayer);
}

Status Instance::make() {
  const std::lock_guard lock(loader_mutex());
  if (!has_loader()) {
    return error(StatusCode::device,
                 "vulkan: the loader libvulkan.so.1 was not found (Debian: libvulkan1)");
  }
  const bool validated = options_.on_message != nullptr && has_layer(kValidationLayer);
  VkDebugUtilsMessengerCreateInfoEXT messages{
      VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  messages.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                             VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messages.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messages.pfnUserCallback = on_message;
  messages.pUserData = &options_;
  const char* const extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "infer";
  application.apiVersion = VK_API_VERSION_1_3;
  VkInstanceCreateInfo create{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  create.pApplicationInfo = &application;
  if (validated) {
    create.enabledLayerCount = 1;
    create.ppEnabledLayerNames = &kValidationLayer;
    create.enabledExtensionCount = 1;
    create.ppEnabledExtensionNames = &extension;
  }
  if (const VkResult made = vkCreateInstance(&create, nullptr, &handle_); made != VK_SUCCESS) {
    handle_ = VK_NULL_HANDLE;
    return failure(made, "vulkan", "cannot make an instance; is a driver installed?");
  }
  volkLoadInstanceOnly(handle_);
#define INFER_FIND(name) \
  vk_.name = reinterpret_cast<PFN_##name>(vkGetInstanceProcAddr(handle_, #name));
  INFER_VULKAN_INSTANCE_FUNCTIONS(INFER_FIND)
#undef INFER_FIND
  vk_.list_matrices =
      vkGetInstanceProcAddr(handle_, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
  if (options_.replace) options_.replace(vk_);
  if (validated) vk_.vkCreateDebugUtilsMessengerEXT(handle_, &messages, nullptr, &messenger_);
  return find_devices();
}

Status Instance::find_devices() {
  uint32_t count = 0;
  std::vector<VkPhysicalDevice> handles;
  VkResult found = VK_INCOMPLETE;  // one may come in between
  while (found == VK_INCOMPLETE) {
    found = vk_.vkEnumeratePhysicalDevices(handle_, &count, nullptr);
    handles.resize(count);
    if (found == VK_SUCCESS)
      found = vk_.vkEnumeratePhysicalDevices(handle_, &count, handles.data());
  }
  if (found != VK_SUCCESS) return failure(found, "vulkan", "cannot list devices");
  handles.resize(count);
  for (VkPhysicalDevice handle : handles) {
    VkPhysicalDeviceProperties properties;
    vk_.vkGetPhysicalDeviceProperties(handle, &properties);
    if (properties.apiVersion < VK_API_VERSION_1_1) continue;
    PhysicalDevice device = describe(vk_, handle);
    if (!find_queue(device)) continue;
    device.name = fmt::format("vulkan:{}", devices_.size());
    device.usable = check_features(device, properties.apiVersion);
    devices_.push_back(std::move(device));
  }
  return {};
}

Instance::~Instance() {
  if (messenger_ != VK_NULL_HANDLE) {
    vk_.vkDestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
  }
  if (handle_ != VK_NULL_HANDLE) vk_.vkDestroyInstance(handle_, nullptr);
}

Status failure(VkResult result, const std::string& device, const char* what) {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return error(StatusCode::out_of_memory, "{}: {}: out of memory", device, what);
    case VK_ERROR_DEVICE_LOST:
      return error(StatusCode::device, "{}: {}: the device was lost; its driver may say why",
                   device, what);
    default:
      return error(StatusCode::device, "{}: {} (VkResult {})", device, what,
                   static_cast<int>(result));
  }
}

}  // namespace infer::vulkan
