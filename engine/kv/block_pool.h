// The pages of one kind: slabs of device memory, who holds each page, and which may be taken back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/backend/device.h"

namespace infer {

struct PrefixNode;

/// A page is free; held, by one reference or more; or kept: nobody holds it, but its contents are
/// known to be those of a prefix node and stay until the page is needed. Kept pages are taken back
/// in the order in which they were let go. Only growing allocates.
class BlockPool {
 public:
  /// A pool without pages. page_bytes: a multiple of the device's alignment.
  BlockPool(Device& device, int64_t page_bytes, int32_t pages_per_slab);

  int64_t page_bytes() const { return page_bytes_; }
  int32_t pages_per_slab() const { return pages_per_slab_; }
  int32_t size() const { return size_; }
  /// Pages that acquire() can still give.
  int32_t available() const { return static_cast<int32_t>(free_.size()) + kept_; }

  /// Adds pages in new slabs; those that exist stay where they are. out_of_memory or device on
  /// failure, with nothing changed.
  Status grow(int32_t pages);
  /// Gives back slabs until at most `pages` pages are left, the kept ones first; then moves held
  /// pages together. `moved(from, to)` is told of each. does_not_fit if more are held.
  template <typename Moved>
  Status shrink(int32_t pages, Moved moved);

  /// A page with one reference; −1 if none is available. Where it had been kept, its node has lost
  /// it.
  int32_t acquire();
  void retain(int32_t page);
  /// After the last reference the page is free, or kept if it belongs to a node.
  void release(int32_t page);

  int32_t references(int32_t page) const { return at(page).references; }
  PrefixNode* node(int32_t page) const { return at(page).node; }
  /// The node whose contents a held page has.
  void set_node(int32_t page, PrefixNode* node) { at(page).node = node; }
  /// Told when a kept page is taken from its node, while its contents are there still.
  void on_evict(std::function<void(PrefixNode*, int32_t page)> told) { told_ = std::move(told); }
  /// Forgets all that is kept.
  void clear_kept();

  MemoryRef memory(int32_t page) const;
  std::byte* const* slab_addresses() const { return addresses_.data(); }

 private:
  struct Page {
    int32_t references = 0;
    int32_t before = -1, after = -1;  ///< in the list of kept pages
    bool exists = false;
    PrefixNode* node = nullptr;
  };

  Page& at(int32_t page) { return pages_[static_cast<size_t>(page)]; }
  const Page& at(int32_t page) const { return pages_[static_cast<size_t>(page)]; }
  void keep(int32_t page);
  void unkeep(int32_t page);
  void evict_oldest();
  /// The first slab to go so that at most `pages` are left.
  size_t slabs_within(int32_t pages) const;
  int32_t held() const { return size_ - available(); }
  /// Drops the slabs from `first` on, in which no page is held or kept.
  void drop_slabs(size_t first);
  Status move(int32_t from, int32_t to);

  Device& device_;
  int64_t page_bytes_;
  int32_t pages_per_slab_;
  int32_t size_ = 0;
  std::vector<std::unique_ptr<Buffer>> slabs_;
  std::vector<std::byte*> addresses_;
  std::vector<Page> pages_;    ///< by id; ids behind the end of a short slab do not exist
  std::vector<int32_t> free_;  ///< a stack
  int32_t kept_ = 0, oldest_ = -1, newest_ = -1;
  std::function<void(PrefixNode*, int32_t)> told_;
};

template <typename Moved>
Status BlockPool::shrink(int32_t pages, Moved moved) {
  const size_t slabs = slabs_within(pages);
  const auto first = static_cast<int32_t>(slabs) * pages_per_slab_;
  int32_t left = 0;
  for (int32_t page = 0; page < first; ++page) left += at(page).exists ? 1 : 0;
  if (held() > left) {
    return error(StatusCode::does_not_fit, "the cache cannot shrink to {} pages: {} are in use",
                 left, held());
  }
  while (held() + kept_ > left) evict_oldest();
  std::erase_if(free_, [&](int32_t page) { return page >= first; });
  for (auto page = first; page < static_cast<int32_t>(pages_.size()); ++page) {
    if (at(page).references == 0 && at(page).node == nullptr) continue;
    const int32_t to = free_.back();
    INFER_CHECK(move(page, to));
    moved(page, to);
  }
  drop_slabs(slabs);
  return {};
}

}  // namespace infer
