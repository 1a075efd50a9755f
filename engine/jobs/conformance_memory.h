// Memory of a conformance case with guard bytes around every value, on the host and on a device.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "engine/backend/device.h"

namespace infer {

/// What memory holds before anything is written: NaN in every float type, so that what is read
/// too early or too far shows.
inline constexpr std::byte kUntouched{0xff};

/// Places in one block of memory, in bytes, each with a guard before and behind it.
struct GuardedLayout {
  std::vector<int64_t> offsets;  ///< by ValueId; 0 where a value has no memory of its own
  std::vector<std::pair<int64_t, int64_t>> guards;  ///< [begin, end)
  int64_t bytes = 0;
};

/// Weights and results of a graph, as a device wants them or, without one, as they are.
GuardedLayout guarded_layout(const Graph& graph, const Device* device);
/// One place.
GuardedLayout single_layout(int64_t bytes, const Device& device);

/// Such a block on a device, untouched at first.
class GuardedBuffer {
 public:
  static Result<std::unique_ptr<GuardedBuffer>> make(Device& device, GuardedLayout layout,
                                                     Purpose purpose);
  MemoryRef at(size_t index) const { return {buffer_.get(), layout_.offsets[index]}; }
  /// Reads the guards as they should stay: after weights are loaded, before anything runs.
  Status remember_guards();
  /// internal if a guard has changed.
  Status check_guards() const;

 private:
  GuardedBuffer(Device& device, GuardedLayout layout)
      : device_(device), layout_(std::move(layout)) {}
  Result<std::vector<std::byte>> read_guards() const;

  Device& device_;
  GuardedLayout layout_;
  std::unique_ptr<Buffer> buffer_;
  std::vector<std::byte> remembered_;
};

/// Cache pages of one kind for a case on both sides: two to a slab, in descending order and
/// sequences taking turns. After them the tables name a page that must not be touched. Of recurrent
/// states a sequence has one page, and no row of a step has one (Device::keeps_row_states).
class KvArena {
 public:
  static Result<KvArena> make(Device& device, const KvKind& kind, int32_t sequences,
                              int64_t tokens);
  KvPages host_pages() const { return pages(host_slabs_); }
  KvPages device_pages() const { return pages(device_slabs_); }
  Status check_guards() const;

 private:
  KvPages pages(const std::vector<std::byte*>& slabs) const;

  int64_t page_bytes_ = 0;
  int32_t table_stride_ = 0;
  std::vector<int32_t> tables_;
  std::vector<std::vector<std::byte>> host_memory_;
  std::vector<std::unique_ptr<GuardedBuffer>> device_memory_;
  std::vector<std::byte*> host_slabs_, device_slabs_;
};

}  // namespace infer
