// Memory of the device, and pinned memory of the host.
#pragma once

#include <memory>

#include "backends/cuda/context.h"
#include "backends/cuda/heap.h"

namespace infer::cuda {

/// A part of the context's heap, with undefined contents.
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
  RawBuffer(Heap& heap, uint64_t address, int64_t bytes)
      : heap_(heap), address_(address), size_(bytes) {}

  Heap& heap_;
  uint64_t address_;
  int64_t size_;
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

}  // namespace infer::cuda
