// Memory of the device, and pinned memory of the host.
#pragma once

#include <memory>

#include "backends/cuda/context.h"
#include "backends/gpu/heap.h"

namespace infer::cuda {

/// Every part of a block begins at a multiple of this, in bytes. So does what the driver allocates.
inline constexpr int64_t kAlignment = 256;

/// One allocation of the driver, with undefined contents.
class RawBuffer {
 public:
  /// Errors: out_of_memory, device.
  static Result<std::unique_ptr<RawBuffer>> create(Context& context, int64_t bytes);
  ~RawBuffer();
  RawBuffer(const RawBuffer&) = delete;
  RawBuffer& operator=(const RawBuffer&) = delete;

  uint64_t address() const { return address_; }
  int64_t size() const { return size_; }

 private:
  RawBuffer(Context& context, int64_t bytes) : context_(context), size_(bytes) {}

  Context& context_;
  int64_t size_;
  CUdeviceptr address_ = 0;
};

/// Memory of the host that the device copies from and to without the processor.
class PinnedBuffer {
 public:
  /// Errors: out_of_memory, device.
  static Result<std::unique_ptr<PinnedBuffer>> create(Context& context, int64_t bytes);
  ~PinnedBuffer();
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;

  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  PinnedBuffer(Context& context, int64_t bytes) : context_(context), size_(bytes) {}

  Context& context_;
  int64_t size_;
  std::byte* data_ = nullptr;
};

class Heap : public gpu::Heap<RawBuffer> {
 public:
  explicit Heap(Context& context)
      : gpu::Heap<RawBuffer>(
            [&context](int64_t bytes) { return RawBuffer::create(context, bytes); }, kAlignment) {}
};

}  // namespace infer::cuda
