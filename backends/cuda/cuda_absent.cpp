// An NVIDIA GPU that is not present: the queries of planning.
#include "backends/cuda/device.h"
#include "backends/cuda/fusion.h"
#include "backends/cuda/packing.h"
#include "backends/cuda/program.h"
#include "backends/cuda/step_memory.h"
#include "engine/backend/absent_device.h"
#include "engine/core/checked.h"

namespace infer::cuda {
namespace {

// What changes how kernels are chosen differs little between GPUs; this is an RTX 4090's.
constexpr int32_t kCapability = 89;
constexpr int32_t kMultiprocessors = 128;
constexpr int64_t kSharedBytes = 99 << 10;
constexpr int64_t kSharedOfMultiprocessor = 100 << 10;

Gpu gpu_of(const AbsentDevice& asked) {
  Gpu gpu;
  gpu.name = asked.name;
  gpu.description = asked.name + ", not present";
  gpu.capability = kCapability;
  gpu.multiprocessors = kMultiprocessors;
  gpu.shared_bytes = kSharedBytes;
  gpu.multiprocessor_shared = kSharedOfMultiprocessor;
  gpu.memory_total = asked.memory;
  gpu.virtual_memory = gpu.cooperative = true;
  return gpu;
}

class AbsentCudaDevice final : public NotPresent {
 public:
  explicit AbsentCudaDevice(const AbsentDevice& asked) : gpu_(gpu_of(asked)) {
    if (asked.exact) tuning_.integer = tuning_.matrices = false;
  }

  DeviceInfo info() const override { return info_of(gpu_); }
  Status capability(const Graph& graph, const Node& node) const override {
    return check_node(graph, node, target());
  }
  int64_t packed_bytes(const TensorDesc& desc) const override {
    return round_up(weight_layout(desc).bytes, kAlignment);
  }
  int64_t scratch_bytes(const Segment& segment) const override {
    return cuda::scratch_bytes(segment, target());
  }
  std::vector<NodePhase> phases(const Segment& segment) const override {
    return plan_phases(segment, target());
  }
  int64_t program_bytes(const Segment& segment) const override {
    return StepMemory::planned_bytes(segment, target().counters(segment));
  }
  int64_t taken_by(std::span<const int64_t> buffers) const override {
    int64_t sum = 0;
    for (const int64_t bytes : buffers) sum += round_up(bytes, kAlignment);
    return round_up(sum, kUsualGranule);
  }
  int64_t alignment() const override { return kAlignment; }
  bool two_classes() const override { return tuning_.matrices; }
  bool streams(const TensorDesc& desc, const HostLayout& layout) const override {
    return CudaWeightStream::takes(desc, layout, repacking_);
  }
  int64_t stream_bytes(std::span<const StreamedWeight> weights) const override {
    return CudaWeightStream::work_bytes(weights, repacking_);
  }

 private:
  Target target() const { return {gpu_, tuning_, cuda_ops()}; }

  Gpu gpu_;
  Tuning tuning_;
  mutable gpu::Repacking repacking_{weight_layout};
};

}  // namespace
}  // namespace infer::cuda

namespace infer {

const AbsentDef& cuda_absent() {
  static const AbsentDef def{"cuda", [](const AbsentDevice& asked) -> std::unique_ptr<Device> {
                               return std::make_unique<cuda::AbsentCudaDevice>(asked);
                             }};
  return def;
}

}  // namespace infer
