// A GPU that is not present: the queries of planning, with the limits that GPUs of today have.
#include "engine/backend/absent_device.h"

#include "backends/gpu/weight_layout.h"
#include "backends/vulkan/device.h"
#include "backends/vulkan/fusion.h"
#include "backends/vulkan/neighbours.h"
#include "backends/vulkan/program.h"
#include "engine/core/checked.h"

namespace infer::vulkan {
namespace {

// What the drivers of NVIDIA, AMD and Intel have in common (vulkan.gpuinfo.org).
constexpr uint32_t kSharedBytes = 48 << 10;
constexpr uint32_t kInvocations = 1024;
constexpr uint32_t kWorkgroups = 65535;
constexpr int64_t kLargestAllocation = (int64_t{4} << 30) - (int64_t{2} << 20);
constexpr uint32_t kSubgroupLanes = 32;

PhysicalDevice physical_of(const AbsentDevice& asked) {
  PhysicalDevice device;
  device.name = asked.name;
  device.description = asked.name + ", not present";
  device.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  device.memory.memoryHeapCount = 1;
  device.memory.memoryHeaps[0] = {static_cast<VkDeviceSize>(asked.memory),
                                  VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  device.limits.maxComputeSharedMemorySize = kSharedBytes;
  device.limits.maxComputeWorkGroupInvocations = kInvocations;
  for (uint32_t& size : device.limits.maxComputeWorkGroupSize) size = kInvocations;
  for (uint32_t& count : device.limits.maxComputeWorkGroupCount) count = kWorkgroups;
  device.subgroup = kSubgroupLanes;
  device.choose_subgroup = true;
  device.integer_dots = device.fast_integer_dots = true;
  if (asked.matrices) device.matrices = {16, 16, 16};
  device.largest_allocation = kLargestAllocation;
  return device;
}

class AbsentVulkanDevice final : public NotPresent {
 public:
  explicit AbsentVulkanDevice(const AbsentDevice& asked)
      : physical_(physical_of(asked)),
        tuning_(restricted(Tuning::of(physical_), physical_, asked.exact)) {}

  DeviceInfo info() const override { return physical_.info(); }
  bool two_classes() const override { return tuning_.matrices; }
  Status capability(const Graph& graph, const Node& node) const override {
    return check_node(graph, node, target());
  }
  int64_t packed_bytes(const TensorDesc& desc) const override {
    return round_up(gpu::WeightLayout(desc).bytes, kAlignment);
  }
  int64_t scratch_bytes(const Segment& segment) const override {
    return vulkan::scratch_bytes(segment, target());
  }
  std::vector<NodePhase> phases(const Segment& segment) const override {
    return plan_phases(segment, target());
  }
  int64_t alignment() const override { return kAlignment; }
  int64_t largest_buffer() const override { return kLargestAllocation; }
  bool streams(const TensorDesc& desc, const HostLayout& layout) const override {
    return VulkanWeightStream::takes(desc, layout, repacking_, physical_);
  }
  int64_t stream_bytes(std::span<const StreamedWeight> weights) const override {
    return VulkanWeightStream::work_bytes(weights, repacking_);
  }

 private:
  Target target() const { return {physical_, tuning_, vulkan_ops()}; }

  PhysicalDevice physical_;
  Tuning tuning_;
  mutable gpu::Repacking repacking_{weight_layout};
};

}  // namespace
}  // namespace infer::vulkan

namespace infer {

const AbsentDef& vulkan_absent() {
  static const AbsentDef def{"vulkan", [](const AbsentDevice& asked) -> std::unique_ptr<Device> {
                               return std::make_unique<vulkan::AbsentVulkanDevice>(asked);
                             }};
  return def;
}

}  // namespace infer
