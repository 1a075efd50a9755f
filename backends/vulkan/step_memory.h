// The inputs of a recorded program for one step: counts of rows, the places of the cache pages of
// each kind, and the inputs of the graph. The host writes them to memory that shaders read at fixed
// addresses.
#pragma once

#include <memory>
#include <vector>

#include "backends/vulkan/memory.h"
#include "engine/graph/graph.h"

namespace infer::vulkan {

/// Not thread-safe.
class StepMemory {
 public:
  /// `tables`: tables.h.
  static Result<std::unique_ptr<StepMemory>> create(Context& context, const Segment& segment,
                                                    VkDeviceAddress tables);

  /// glsl/common.glsl: Step.
  VkDeviceAddress address() const { return buffer_->address(); }
  /// The address of an input of the graph. A node of the segment reads the input.
  VkDeviceAddress input(ValueId id) const {
    return buffer_->address() + static_cast<VkDeviceAddress>(offsets_[static_cast<size_t>(id)]);
  }
  /// Writes all inputs. No program that reads them may be running.
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
