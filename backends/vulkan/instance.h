// The Vulkan loader, an instance of it and the devices that it shows. The loader is opened at run
// time: where there is none, there are no devices, and the failure says why.
#pragma once

#include <volk.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/device.h"
#include "engine/core/status.h"

namespace infer::vulkan {

/// Functions of one instance. Volk's global ones are those of the instance that was made last.
#define INFER_VULKAN_INSTANCE_FUNCTIONS(F)    \
  F(vkDestroyInstance)                        \
  F(vkEnumeratePhysicalDevices)               \
  F(vkEnumerateDeviceExtensionProperties)     \
  F(vkGetPhysicalDeviceProperties)            \
  F(vkGetPhysicalDeviceProperties2)           \
  F(vkGetPhysicalDeviceFeatures2)             \
  F(vkGetPhysicalDeviceQueueFamilyProperties) \
  F(vkGetPhysicalDeviceMemoryProperties)      \
  F(vkGetPhysicalDeviceMemoryProperties2)     \
  F(vkCreateDevice)                           \
  F(vkCreateDebugUtilsMessengerEXT)           \
  F(vkDestroyDebugUtilsMessengerEXT)
struct InstanceFunctions {
#define INFER_MEMBER(name) PFN_##name name = nullptr;
  INFER_VULKAN_INSTANCE_FUNCTIONS(INFER_MEMBER)
#undef INFER_MEMBER
  /// VK_KHR_cooperative_matrix; null where the loader does not know it.
  PFN_vkVoidFunction list_matrices = nullptr;
};

/// A device and a version of its driver, as its compiled pipelines belong to them.
struct DriverIdentity {
  uint32_t vendor = 0;
  uint32_t device = 0;
  uint32_t version = 0;
  uint8_t pipelines[VK_UUID_SIZE] = {};
};

/// Cooperative matrices of a subgroup: m × n sums in float32 of products of k float16 factors.
struct MatrixShape {
  uint32_t m = 0;
  uint32_t n = 0;
  uint32_t k = 0;

  bool given() const { return m > 0; }
  std::string name() const { return fmt::format("{}x{}x{}", m, n, k); }
};

/// What a physical device can do, as far as the back end asks.
struct PhysicalDevice {
  const InstanceFunctions* vk = nullptr;
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  std::string name;         ///< "vulkan:0"
  std::string description;  ///< device and driver
  VkPhysicalDeviceLimits limits{};
  VkPhysicalDeviceMemoryProperties memory{};
  uint32_t queue_family = 0;
  uint32_t timestamp_bits = 0;
  uint32_t subgroup = 0;         ///< lanes of a subgroup in all shaders
  bool choose_subgroup = false;  ///< pipelines have to ask for that size
  DriverIdentity driver;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  bool processor = false;            ///< a CPU: no more at once than it has cores
  bool memory_budget = false;        ///< VK_EXT_memory_budget
  bool integer_dots = false;         ///< products of packed bytes, with shuffles to prepare them
  bool fast_integer_dots = false;    ///< by an instruction for them
  bool integer_dots_extend = false;  ///< they are an extension: before Vulkan 1.3
  MatrixShape matrices;              ///< none where it has none of a shape that shaders have
  int64_t largest_allocation = 0;
  Status usable;  ///< unsupported, with the feature that is missing

  /// Bytes of device-local memory: all, and those that may be allocated now.
  int64_t memory_total() const;
  int64_t memory_free() const;
  DeviceInfo info() const;
};

/// The index of the usable device that is likely the fastest: discrete before integrated before
/// others before processors, then the one with most memory. −1: none is usable.
int32_t best_device(std::span<const PhysicalDevice> devices);

/// What a test asks of an instance.
struct InstanceOptions {
  /// Gets the warnings and errors of the validation layer, if that is installed. Null: without it.
  std::function<void(const std::string&)> on_message;
  /// Stand between the back end and the driver: each is called when the functions that it may
  /// replace have just been found.
  std::function<void(InstanceFunctions& functions)> replace;
  std::function<void(VolkDeviceTable& functions)> replace_of_device;
};

/// Shared by all open devices. When the last device is closed, it is destroyed; the next device
/// creates a new one.
class Instance {
 public:
  /// The one that all devices share that are opened without one of their own. It is made anew once
  /// the last of them is gone. device: there is no loader, or it makes no instance.
  static Result<std::shared_ptr<Instance>> get();
  /// One of the caller's own.
  static Result<std::shared_ptr<Instance>> create(InstanceOptions options);
  /// Whether the validation layer is installed.
  static bool can_validate();
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// All with a queue for computing, usable or not, in the loader's order.
  const std::vector<PhysicalDevice>& devices() const { return devices_; }
  const InstanceFunctions& vk() const { return vk_; }
  const InstanceOptions& options() const { return options_; }

 private:
  explicit Instance(InstanceOptions options) : options_(std::move(options)) {}
  Status make();
  Status find_devices();

  InstanceOptions options_;
  InstanceFunctions vk_;

  VkInstance handle_ = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
  std::vector<PhysicalDevice> devices_;
};

/// What a Vulkan call that failed comes to: out_of_memory or device.
Status failure(VkResult result, const std::string& device, const char* what);

}  // namespace infer::vulkan
