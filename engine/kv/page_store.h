// A file for pages that left memory. The file has no name. The oldest pages make room for new ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/core/status.h"

namespace infer {

struct PrefixNode;

/// Pages of one kind. Allocates no memory after create(). Not thread-safe.
class PageStore {
 public:
  /// Creates the file in a folder, for up to `slots` pages. Errors: io.
  static Result<std::unique_ptr<PageStore>> create(const std::string& folder, int64_t page_bytes,
                                                   int32_t slots);
  ~PageStore();
  PageStore(const PageStore&) = delete;
  PageStore& operator=(const PageStore&) = delete;

  /// Memory for one page. The caller fills it before put().
  std::span<std::byte> buffer() { return buffer_; }
  /// If all slots are taken: the node of the oldest page, which has to be dropped before put().
  /// Null if a slot is free.
  PrefixNode* oldest() const;
  /// Writes the buffer into a slot for this node. Returns the slot, or −1 if writing failed.
  int32_t put(PrefixNode* node);
  /// Reads a slot into the buffer. False if reading failed.
  bool get(int32_t slot);
  void drop(int32_t slot);

 private:
  struct Slot {
    PrefixNode* node = nullptr;
    int32_t before = -1, after = -1;  ///< by age
  };
  PageStore(int64_t page_bytes, int32_t slots);
  Slot& at(int32_t slot) { return slots_[static_cast<size_t>(slot)]; }
  uint64_t place_of(int32_t slot) const { return static_cast<uint64_t>(slot) * buffer_.size(); }

  int fd_ = -1;
  std::vector<std::byte> buffer_;
  std::vector<Slot> slots_;
  std::vector<int32_t> free_;
  int32_t oldest_ = -1, newest_ = -1;
};

}  // namespace infer
