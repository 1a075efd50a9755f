// The CPU as a Device: memory is host memory, a program is a list of kernel calls.
#pragma once

#include <atomic>
#include <memory>

#include "backends/cpu/kernels.h"
#include "backends/cpu/lone_thread.h"
#include "engine/backend/device.h"
#include "engine/core/thread_pool.h"

namespace infer::cpu {

class CpuDevice final : public Device {
 public:
  /// `ops` outlives the device.
  CpuDevice(const IsaKernels& isa, const DeviceOptions& options,
            const OpTable<CpuOp>& ops = cpu_ops());

  DeviceInfo info() const override;
  Ceilings measure_ceilings() override;
  ThreadPool* threads() const override { return context_.pool; }
  bool keeps_row_states() const override { return true; }
  Status capability(const Graph& graph, const Node& node) const override;
  int64_t packed_bytes(const TensorDesc& desc) const override;
  int64_t scratch_bytes(const Segment& segment) const override;
  std::vector<NodePhase> phases(const Segment& segment) const override;
  int64_t alignment() const override;
  Result<std::unique_ptr<Buffer>> alloc(int64_t bytes, Purpose purpose) override;
  int64_t allocated(Purpose purpose) const override;
  Status load_weight(const TensorDesc& desc, const ReadFn& read, const MemoryRef& to) override;
  bool adopts() const override { return true; }
  std::unique_ptr<Buffer> adopt(const TensorDesc& desc, std::span<const std::byte> bytes) override;
  std::optional<HostLayout> host_layout(const TensorDesc& desc) const override;
  Result<std::unique_ptr<Program>> compile(const CompileSpec& spec) override;
  const std::byte* view(const MemoryRef& from) const override;
  Status read(const MemoryRef& from, std::span<std::byte> to) override;
  Status write(std::span<const std::byte> from, const MemoryRef& to) override;
  Status copy(const MemoryRef& from, const MemoryRef& to, int64_t bytes) override;

  const CpuContext& context() const { return context_; }

 private:
  std::unique_ptr<ThreadPool> own_pool_;  ///< null where another device's threads serve
  LoneThread lone_;
  CpuContext context_;
  bool streams_measured_ = false;
  DeviceInfo info_;  ///< but for the memory, which is that of now
  std::atomic<int64_t> allocated_[kPurposeCount]{};
};

/// program.cpp
std::unique_ptr<Program> compile_program(const CpuContext& context, const CompileSpec& spec);

/// Weights of so many bytes are worth large pages: every step reads all of them, and not from
/// caches.
inline constexpr int64_t kWorthLargePages = int64_t{64} << 20;

/// load.cpp: reads a weight into the layout that products want, on all threads. Where these are at
/// several memory nodes, what a thread multiplies lies at its own.
Status load(const CpuContext& context, const TensorDesc& desc, const ReadFn& read,
            const MemoryRef& to);

/// ceilings.cpp
Ceilings measure(const CpuContext& context);

}  // namespace infer::cpu
