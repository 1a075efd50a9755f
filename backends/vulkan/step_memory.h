// What a step gives to a recorded program, in memory that the host writes and shaders read at fixed
// addresses: counts of rows, where each kind of cache pages lies, and the inputs of the graph.
#pragma once

#include <memory>
#include <vector>

#include "backends/vulkan/memory.h"
#include "engine/graph/graph.h"

namespace infer::vulkan {

/// One thread.
class StepMemory {
 public:
  /// `tables`: tables.h.
  static Result<std::unique_ptr<StepMemory>> create(Context& context, const Segment& segment,
                                                    VkDeviceAddress tables);

  /// glsl/common.glsl: Step.
  VkDeviceAddress address() const { return buffer_->address(); }
  /// Of an input of the graph that a node of the segment reads.
  VkDeviceAddress input(ValueId id) const {
    return buffer_->address() + static_cast<VkDeviceAddress>(offsets_[static_cast<size_t>(id)]);
  }
  /// Writes all of it. Nothing that reads it may be running.
  Status write(const Bindings& bindings);

 private:
  StepMemory(Context& context, const Segment& segment, VkDeviceAddress tables);

  Status write_pages(const Bindings& bindings);

  Context& context_;
  const Graph& graph_;
  Roles roles_;
  VkDeviceAddress constants_;  ///< tables.h
  KvLayout kv_layout_;
  std::vector<bool> kinds_;  ///< by kind: whether a node of the segment uses its pages
  ValueId slots_ = kNoValue;
  ValueId sequences_ = kNoValue;
  std::vector<int64_t> offsets_;  ///< by ValueId; -1: no input of the segment
  int64_t bytes_ = 0;
  std::unique_ptr<RawBuffer> buffer_;
  std::unique_ptr<RawBuffer> tables_;  ///< addresses of pages, by kind, sequence and page
  struct Reach {
    int32_t first = 0;  ///< page
    int32_t last = -1;
  };
  std::vector<Reach> reach_;  ///< by sequence; kept for its memory
};

}  // namespace infer::vulkan
