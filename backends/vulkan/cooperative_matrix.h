// VK_KHR_cooperative_matrix, from the registry of Vulkan. Headers before 1.3.255 lack it.
#pragma once

#include <volk.h>

namespace infer::vulkan {

inline constexpr const char* kMatrixExtension = "VK_KHR_cooperative_matrix";

/// VkPhysicalDeviceCooperativeMatrixFeaturesKHR
struct CooperativeMatrixFeatures {
  VkStructureType type = static_cast<VkStructureType>(1000506000);
  void* next = nullptr;
  VkBool32 cooperative_matrix = VK_FALSE;
  VkBool32 robust_buffer_access = VK_FALSE;
};

/// VkComponentTypeKHR, VkScopeKHR
inline constexpr int32_t kFloat16 = 0;
inline constexpr int32_t kFloat32 = 1;
inline constexpr int32_t kSubgroupScope = 3;

/// VkCooperativeMatrixPropertiesKHR
struct CooperativeMatrixProperties {
  VkStructureType type = static_cast<VkStructureType>(1000506001);
  void* next = nullptr;
  uint32_t m = 0;
  uint32_t n = 0;
  uint32_t k = 0;
  int32_t a = 0;
  int32_t b = 0;
  int32_t c = 0;
  int32_t result = 0;
  VkBool32 saturating = VK_FALSE;
  int32_t scope = 0;
};

/// vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR
using ListCooperativeMatrices = VkResult(VKAPI_PTR*)(VkPhysicalDevice, uint32_t* count,
                                                     CooperativeMatrixProperties* properties);

}  // namespace infer::vulkan
