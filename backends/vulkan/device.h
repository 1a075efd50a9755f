// A Vulkan device as a Device of the engine. Buffer::address() is the device address.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "backends/gpu/packer.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/near_largest.h"
#include "backends/vulkan/neighbours.h"
#include "backends/vulkan/op.h"
#include "backends/vulkan/pipelines.h"
#include "backends/vulkan/transfer.h"
#include "backends/vulkan/tuning.h"
#include "backends/vulkan/weight_stream.h"
#include "engine/backend/device.h"

namespace infer::vulkan {

/// When a device is measured that has no saved measurements (measured_tuning.h).
enum class MeasureDevice : uint8_t { never, if_hardware, always };

/// How a device is opened.
struct VulkanOptions {
  std::shared_ptr<Instance> instance;  ///< null: Instance::get()
  std::optional<Tuning> tuning;        ///< none: the values that suit it
  MeasureDevice measure = MeasureDevice::never;
  const OpTable<VulkanOp>* ops = nullptr;  ///< null: all; outlives the device
};

/// The tuning without what the device, or `exact`, rules out.
Tuning restricted(Tuning tuning, const PhysicalDevice& device, bool exact);
/// Device::capability() of a target.
Status check_node(const Graph& graph, const Node& node, const Target& target);

class VulkanDevice final : public Device {
 public:
  /// `exact`: activations stay float32.
  static Result<std::unique_ptr<Device>> open(int32_t index, bool exact,
                                              const VulkanOptions& own = {});

  DeviceInfo info() const override;
  Ceilings measure_ceilings() override;
  Status capability(const Graph& graph, const Node& node) const override;
  bool asynchronous() const override { return true; }
  bool two_classes() const override { return tuning_.matrices; }
  int64_t packed_bytes(const TensorDesc& desc) const override;
  int64_t scratch_bytes(const Segment& segment) const override;
  std::vector<NodePhase> phases(const Segment& segment) const override;
  int64_t alignment() const override { return kAlignment; }
  int64_t largest_buffer() const override;
  Result<std::unique_ptr<Buffer>> alloc(int64_t bytes, Purpose purpose) override;
  int64_t allocated(Purpose purpose) const override;
  Status load_weight(const TensorDesc& desc, const ReadFn& read, const MemoryRef& to) override;
  std::unique_ptr<Buffer> adopt(const TensorDesc& desc, std::span<const std::byte> bytes) override;
  bool streams(const TensorDesc& desc, const HostLayout& layout) const override {
    return VulkanWeightStream::takes(desc, layout, repacking_, context_->physical());
  }
  int64_t stream_bytes(std::span<const StreamedWeight> weights) const override {
    return VulkanWeightStream::work_bytes(weights, repacking_);
  }
  Result<std::unique_ptr<WeightStream>> open_stream(
      std::span<const StreamedWeight> weights, std::span<const std::span<const std::byte>> host,
      const MemoryRef& work) override;
  Result<std::unique_ptr<Program>> compile(const CompileSpec& spec) override;
  Status read(const MemoryRef& from, std::span<std::byte> to) override;
  bool finds_largest() const override { return tuning_.near_largest; }
  Status near_largest(const MemoryRef& values, int64_t columns, int64_t rows, float reach,
                      std::vector<std::vector<IndexedValue>>& found) override;
  Status write(std::span<const std::byte> from, const MemoryRef& to) override;
  Status copy(const MemoryRef& from, const MemoryRef& to, int64_t bytes) override;

  const Heap& heap() const { return *heap_; }
  const Tuning& tuning() const { return tuning_; }

 private:
  VulkanDevice() = default;
  /// Has the device used in the way that measurements have shown, or show now, to be fastest.
  void use_measured_tuning(MeasureDevice measure);
  Target target() const { return {context_->physical(), tuning_, *ops_}; }

  // Later members use earlier ones, so they are destroyed first.
  std::unique_ptr<Context> context_;
  Tuning tuning_;
  const OpTable<VulkanOp>* ops_ = nullptr;
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<Transfer> transfer_;
  std::unique_ptr<Pipelines> pipelines_;
  std::unique_ptr<RawBuffer> tables_;  ///< gpu/tables.h
  std::unique_ptr<NearLargest> near_largest_;
  mutable gpu::Repacking repacking_{weight_layout};
  gpu::PackingThreads packing_;
  std::atomic<int64_t> allocated_[kPurposeCount]{};
};

}  // namespace infer::vulkan
