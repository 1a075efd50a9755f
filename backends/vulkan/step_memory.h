// The inputs of a recorded program for one step (gpu/step_contents.h), in memory that the host
// writes and shaders read at fixed addresses.
#pragma once

#include <memory>

#include "backends/gpu/step_contents.h"
#include "backends/vulkan/memory.h"

namespace infer::vulkan {

/// Not thread-safe.
class StepMemory {
 public:
  /// `tables`: gpu/tables.h.
  static Result<std::unique_ptr<StepMemory>> create(Context& context, const Segment& segment,
                                                    VkDeviceAddress tables);

  /// glsl/common.glsl: Step.
  VkDeviceAddress address() const { return buffer_->address(); }
  /// The address of an input of the graph. A node of the segment reads the input.
  VkDeviceAddress input(ValueId id) const {
    return buffer_->address() + static_cast<VkDeviceAddress>(contents_.offset(id));
  }
  /// gpu::StepContents::context().
  int64_t context(const Bindings& bindings) const { return contents_.context(bindings); }
  /// Writes all inputs. No program that reads them may be running.
  Status write(const Bindings& bindings);

 private:
  StepMemory(Context& context, const Segment& segment, VkDeviceAddress tables)
      : context_(context), contents_(segment, tables) {}

  Context& context_;
  gpu::StepContents contents_;
  std::unique_ptr<RawBuffer> buffer_;
  std::unique_ptr<RawBuffer> pages_;  ///< addresses of pages, by kind, sequence and page
};

}  // namespace infer::vulkan
