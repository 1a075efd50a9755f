// Pages that left memory: in a file without a name, the oldest giving way to new ones.
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

/// Pages of one kind. Allocates nothing once created. One thread.
class PageStore {
 public:
  /// In a folder, for up to `slots` pages. io if no file can be made there.
  static Result<std::unique_ptr<PageStore>> create(const std::string& folder, int64_t page_bytes,
                                                   int32_t slots);
  ~PageStore();
  PageStore(const PageStore&) = delete;
  PageStore& operator=(const PageStore&) = delete;

  /// Room for a page's bytes, to be filled before put().
  std::span<std::byte> buffer() { return buffer_; }
  /// The node whose page has to go before put() finds a slot; null if there is a free one.
  PrefixNode* oldest() const;
  /// Writes the buffer for a node. Its slot, or −1 if the system refuses.
  int32_t put(PrefixNode* node);
  /// Reads a slot into the buffer; false if the system refuses.
  bool get(int32_t slot);
  void drop(int32_t slot);

 private:
  struct Slot {
    PrefixNode* node = nullptr;
    int32_t before = -1, after = -1;  ///< by age
  };
  PageStore(int64_t page_bytes, int32_t slots);
  Slot& at(int32_t slot) { return slots_[static_cast<size_t>(slot)]; }

  int fd_ = -1;
  std::vector<std::byte> buffer_;
  std::vector<Slot> slots_;
  std::vector<int32_t> free_;
  int32_t oldest_ = -1, newest_ = -1;
};

}  // namespace infer
