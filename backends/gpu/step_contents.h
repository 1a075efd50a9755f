// The inputs of a compiled program for one step: counts of rows, the places of the cache pages of
// each kind, and the inputs of the graph. This says which bytes they are (step.h); the memory is
// the back end's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/backend/device.h"
#include "engine/graph/graph.h"

namespace infer::gpu {

/// Not thread-safe.
class StepContents {
 public:
  /// `tables`: StepHeader::tables.
  StepContents(const Segment& segment, uint64_t tables);

  /// Bytes of header, kinds and inputs.
  int64_t bytes() const { return bytes_; }
  /// Whether steps have tables of pages.
  bool paged() const { return slots_ != kNoValue && sequences_ != kNoValue; }
  /// Where an input of the graph is in them. A node of the segment reads the input.
  int64_t offset(ValueId id) const { return offsets_[static_cast<size_t>(id)]; }
  /// Bytes of the tables of pages of this step; 0 if it has none.
  int64_t page_bytes(const Bindings& bindings) const;
  /// Tokens of the longest sequence of this step, up to the end of a page; 0 if it has no cache.
  int64_t context(const Bindings& bindings) const {
    return page_shape(bindings).stride * kPageTokens;
  }
  /// Writes bytes() at `data`, and page_bytes() at `pages`, which kernels read at `pages_address`.
  void write(const Bindings& bindings, std::byte* data, std::byte* pages, uint64_t pages_address);

 private:
  /// The tables of pages: [kinds][sequences][stride].
  struct PageShape {
    int64_t sequences = 0;
    int64_t stride = 0;
  };
  PageShape page_shape(const Bindings& bindings) const;
  const int32_t* ints(const Bindings& bindings, ValueId id) const;
  void write_pages(const Bindings& bindings, std::byte* data, std::byte* pages,
                   uint64_t pages_address);

  const Graph& graph_;
  Roles roles_;
  uint64_t tables_;
  KvLayout kv_layout_;
  std::vector<bool> kinds_;  ///< by kind: whether a node of the segment uses its pages
  ValueId slots_ = kNoValue;
  ValueId sequences_ = kNoValue;
  std::vector<int64_t> offsets_;  ///< by ValueId; -1: no input of the segment
  int64_t bytes_ = 0;
  struct Reach {
    int32_t first = 0;  ///< page
    int32_t last = -1;
  };
  std::vector<Reach> reach_;  ///< by sequence; kept for its memory
};

}  // namespace infer::gpu
