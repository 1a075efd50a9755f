// A heap of the driver's own blocks: for devices without virtual memory.
#pragma once

#include <map>
#include <mutex>

#include "backends/cuda/context.h"
#include "backends/cuda/heap.h"
#include "backends/gpu/heap.h"

namespace infer::cuda {

/// One allocation of the driver.
class DriverBlock {
 public:
  /// Errors: out_of_memory, device.
  static Result<std::unique_ptr<DriverBlock>> create(Context& context, int64_t bytes);
  ~DriverBlock();
  DriverBlock(const DriverBlock&) = delete;
  DriverBlock& operator=(const DriverBlock&) = delete;

  uint64_t address() const { return address_; }
  int64_t size() const { return size_; }

 private:
  DriverBlock(Context& context, int64_t bytes) : context_(context), size_(bytes) {}

  Context& context_;
  int64_t size_;
  CUdeviceptr address_ = 0;
};

class BlockHeap final : public Heap {
 public:
  explicit BlockHeap(Context& context);

  Result<uint64_t> allocate(int64_t bytes) override;
  void release(uint64_t address) override;
  int64_t held() const override { return blocks_.held(); }
  int64_t taken_by(std::span<const int64_t> parts) const override;
  int64_t unused() const override { return 0; }

 private:
  gpu::Heap<DriverBlock> blocks_;
  std::mutex mutex_;
  std::map<uint64_t, gpu::Part<DriverBlock>> parts_;  ///< by address
};

}  // namespace infer::cuda
