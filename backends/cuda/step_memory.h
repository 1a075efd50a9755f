// The inputs of a program for one step (gpu/step_contents.h): the host writes them to pinned
// memory, and the first nodes of the program's graph copy them to the device.
#pragma once

#include <memory>

#include "backends/cuda/memory.h"
#include "backends/gpu/step_contents.h"

namespace infer::cuda {

/// Not thread-safe.
class StepMemory {
 public:
  /// A copy that the program's graph makes.
  struct Copy {
    const std::byte* from = nullptr;  ///< pinned
    uint64_t to = 0;
    int64_t bytes = 0;
  };

  /// Bytes of the device's memory that create() takes. `counters`: Target::counters().
  static int64_t planned_bytes(const Segment& segment, int64_t counters);
  static Result<std::unique_ptr<StepMemory>> create(Context& context, const Segment& segment,
                                                    int64_t counters, uint64_t tables);

  /// gpu/step.h
  uint64_t address() const { return on_device_->address(); }
  /// NodeCall::counters
  uint64_t counters() const {
    return on_device_->address() + static_cast<uint64_t>(contents_.bytes());
  }
  /// The address of an input of the graph. A node of the segment reads the input.
  uint64_t input(ValueId id) const {
    return on_device_->address() + static_cast<uint64_t>(contents_.offset(id));
  }
  /// The copy of header and inputs, which is always the same.
  Copy inputs() const { return {host_->data(), on_device_->address(), host_->size()}; }
  /// That of the tables of pages; no bytes if the segment does not use the cache. A write changes
  /// it, rarely.
  Copy pages() const;
  /// Writes all inputs. No program that reads them may be running.
  Status write(const Bindings& bindings);

 private:
  StepMemory(Context& context, const Segment& segment, uint64_t tables)
      : context_(context), contents_(segment, tables) {}
  Status grow(int64_t needed);

  Context& context_;
  gpu::StepContents contents_;
  std::unique_ptr<PinnedBuffer> host_;
  std::unique_ptr<RawBuffer> on_device_;
  std::unique_ptr<PinnedBuffer> host_pages_;
  std::unique_ptr<RawBuffer> device_pages_;
  int64_t page_bytes_ = 0;  ///< copied in a step
};

}  // namespace infer::cuda
