// The Vulkan loader, an instance and its devices. The loader is opened at run time. If there is
// none, there are no devices, and the failure says why.
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

/// Functions of one instance. (Volk's global functions belong to the newest instance.)
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
  /// Of VK_KHR_cooperative_matrix; null if the loader does not know it.
  PFN_vkVoidFunction list_matrices = nullptr;
};

/// A device and its driver's version. Compiled pipelines are valid for these alone.
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

/// A physical device, and the features that the back end uses.
struct PhysicalDevice {
  const InstanceFunctions* vk = nullptr;
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  std::string name;         ///< "vulkan:0"
  std::string description;  ///< device and driver
  std::string pci;          ///< "0000:01:00.0"; empty: not known
  VkPhysicalDeviceLimits limits{};
  VkPhysicalDeviceMemoryProperties memory{};
  uint32_t queue_family = 0;
  uint32_t queues = 1;  ///< of this family
  uint32_t timestamp_bits = 0;
  uint32_t subgroup = 0;         ///< lanes of a subgroup in all shaders
  bool choose_subgroup = false;  ///< pipelines have to request this size
  DriverIdentity driver;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;
  bool processor = false;            ///< a CPU: runs no more workgroups at once than it has cores
  bool memory_budget = false;        ///< VK_EXT_memory_budget
  bool integer_dots = false;         ///< products of packed bytes, with shuffles to prepare them
  bool fast_integer_dots = false;    ///< by an instruction for them
  bool integer_dots_extend = false;  ///< they are an extension: before Vulkan 1.3
  MatrixShape matrices;              ///< none if it has no shape that the shaders support
  int64_t largest_allocation = 0;
  /// Memory of the host that begins and ends at a multiple of this can be imported
  /// (VK_EXT_external_memory_host); 0: none can.
  int64_t import_alignment = 0;
  Status usable;  ///< unsupported, with the feature that is missing

  /// Bytes of device-local memory: the total, and what can be allocated now.
  int64_t memory_total() const;
  int64_t memory_free() const;
  DeviceInfo info() const;
};

/// The index of the usable device that is likely the fastest: discrete before integrated before
/// others before processors, then the one with most memory. −1: none is usable.
int32_t best_device(std::span<const PhysicalDevice> devices);

/// How a test makes an instance.
struct InstanceOptions {
  /// Gets the warnings and errors of the validation layer, if that is installed. Null: without it.
  std::function<void(const std::string&)> on_message;
  /// These can replace functions of the driver. Each is called as soon as the functions have been
  /// found.
  std::function<void(InstanceFunctions& functions)> replace;
  std::function<void(VolkDeviceTable& functions)> replace_of_device;
};

/// Shared by all open devices. When the last device is closed, it is destroyed; the next device
/// creates a new one.
class Instance {
 public:
  /// The instance that devices share if they are not given another. Made again after the last of
  /// these devices is closed. Errors: device if there is no loader, or it makes no instance.
  static Result<std::shared_ptr<Instance>> get();
  /// An instance for the caller alone.
  static Result<std::shared_ptr<Instance>> create(InstanceOptions options);
  /// Whether the validation layer is installed.
  static bool can_validate();
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// All devices with a queue for computing, usable or not, in the loader's order.
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

/// The Status of a Vulkan call that failed: out_of_memory or device.
Status failure(VkResult result, const std::string& device, const char* what);

}  // namespace infer::vulkan
