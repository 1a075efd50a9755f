// A GPU under NVIDIA's driver as a Device of the engine. Buffer::address() is the device address.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "backends/cuda/memory.h"
#include "backends/cuda/modules.h"
#include "backends/cuda/near_largest.h"
#include "backends/cuda/op.h"
#include "backends/cuda/packing.h"
#include "backends/cuda/transfer.h"
#include "backends/cuda/weight_stream.h"
#include "backends/gpu/packer.h"
#include "engine/backend/device.h"

namespace infer::cuda {

/// How this back end's tests open a device.
struct CudaOptions {
  std::shared_ptr<const Driver> driver;  ///< null: Driver::get()
  std::optional<Tuning> tuning;          ///< none: the default
  const OpTable<CudaOp>* ops = nullptr;  ///< null: all; outlives the device
};

/// Device::capability() of a target.
Status check_node(const Graph& graph, const Node& node, const Target& target);

class CudaDevice final : public Device {
 public:
  /// `exact`: activations stay float32.
  static Result<std::unique_ptr<Device>> open(int32_t index, bool exact,
                                              const CudaOptions& own = {});

  DeviceInfo info() const override;
  Ceilings measure_ceilings() override;
  Status capability(const Graph& graph, const Node& node) const override;
  bool asynchronous() const override { return true; }
  bool two_classes() const override { return tuning_.matrices; }
  int64_t packed_bytes(const TensorDesc& desc) const override;
  int64_t scratch_bytes(const Segment& segment) const override;
  std::vector<NodePhase> phases(const Segment& segment) const override;
  Status prepare(std::span<const DType> weights) override { return modules_->load_for(weights); }
  int64_t program_bytes(const Segment& segment) const override;
  int64_t taken_by(std::span<const int64_t> buffers) const override {
    return heap().taken_by(buffers);
  }
  int64_t alignment() const override { return kAlignment; }
  Result<std::unique_ptr<Buffer>> alloc(int64_t bytes, Purpose purpose) override;
  int64_t allocated(Purpose purpose) const override;
  Status load_weight(const TensorDesc& desc, const ReadFn& read, const MemoryRef& to) override;
  std::unique_ptr<Buffer> adopt(const TensorDesc& desc, std::span<const std::byte> bytes) override;
  bool streams(const TensorDesc& desc, const HostLayout& layout) const override {
    return CudaWeightStream::takes(desc, layout, repacking_);
  }
  int64_t stream_bytes(std::span<const StreamedWeight> weights) const override {
    return CudaWeightStream::work_bytes(weights, repacking_);
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
  bool reaches(const Device& other) const override;
  Status copy_from(Device& other, const MemoryRef& from, const MemoryRef& to,
                   int64_t bytes) override;

  const Heap& heap() const { return context_->heap(); }

 private:
  CudaDevice() = default;
  Target target() const { return {context_->gpu(), tuning_, *ops_}; }

  // Later members use earlier ones, so they are destroyed first.
  std::unique_ptr<Context> context_;
  Tuning tuning_;
  const OpTable<CudaOp>* ops_ = nullptr;
  std::unique_ptr<Transfer> transfer_;
  std::unique_ptr<Modules> modules_;
  std::unique_ptr<RawBuffer> tables_;  ///< gpu/tables.h
  std::unique_ptr<NearLargest> near_largest_;
  mutable gpu::Repacking repacking_{weight_layout};
  gpu::PackingThreads packing_;
  /// What the device's own buffers leave of the last granule: so what is planned begins at a
  /// granule, and takes exactly what the plan says.
  std::unique_ptr<RawBuffer> rest_;
  std::atomic<int64_t> allocated_[kPurposeCount]{};
};

}  // namespace infer::cuda
