// The pages of one kind: slabs of device memory, and the state of each page.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/backend/device.h"

namespace infer {

struct PrefixNode;

/// A page is free, held or kept. A held page has one or more references. A kept page has no
/// references, but its contents belong to a prefix node and stay until the page is needed. Kept
/// pages are evicted in the order in which they were released. Only widen(), grow() and shrink()
/// allocate memory. Not thread-safe.
class PagePool {
 public:
  /// A pool without pages. page_bytes: a multiple of the device's alignment.
  PagePool(Device& device, int64_t page_bytes);

  int64_t page_bytes() const { return page_bytes_; }
  int32_t pages_per_slab() const { return pages_per_slab_; }
  int32_t size() const { return size_; }
  /// Pages that acquire() can still give.
  int32_t available() const { return static_cast<int32_t>(free_.size()) + kept_; }
  int32_t held() const { return size_ - available(); }
  /// Pages that acquire() can give without evicting one.
  int32_t unused() const { return static_cast<int32_t>(free_.size()); }
  /// Pages that nobody holds, whose contents are known.
  int32_t kept() const { return kept_; }
  /// Begins to count pages: count() is true at the first call with a page since then.
  void begin_count() { ++count_; }
  bool count(int32_t page) { return std::exchange(at(page).counted, count_) != count_; }
  /// All ids are below this. Some ids below it may not exist.
  int32_t id_end() const { return static_cast<int32_t>(pages_.size()); }
  /// Bytes of pages that have never been acquired. A system that gives memory on the first write
  /// still counts them as free.
  int64_t untouched_bytes() const { return (size_ - touched_) * page_bytes_; }

  /// Pages in a slab of a pool of this size.
  int32_t slab_pages(int32_t pages) const;
  /// Prepares for growing to this many pages. If slabs become much larger, the pages get new ids
  /// (renumbered()); no data moves. May throw std::bad_alloc; nothing has changed then.
  void widen(int32_t pages);
  static int32_t renumbered(int32_t page, int32_t pages_per_slab_before, int32_t pages_per_slab) {
    return page < 0 ? page
                    : page / pages_per_slab_before * pages_per_slab + page % pages_per_slab_before;
  }
  /// Adds pages in new slabs; existing pages do not move. Errors: out_of_memory, device; nothing
  /// has changed then.
  Status grow(int32_t pages);
  /// Shrinks to at most `pages` pages: evicts kept pages, moves held pages together, and frees the
  /// slabs at the end. Calls moved(from, to) for each page moved. A slab that is only partly needed
  /// is allocated again in its new size; if there is no memory for that, it is freed as a whole.
  /// Errors: does_not_fit if more pages are held; device.
  template <typename Moved>
  Status shrink(int32_t pages, Moved moved);

  /// Returns a page with one reference, or −1 if none is available. If the page was kept, it is
  /// evicted from its node.
  int32_t acquire();
  /// Adds a reference.
  void retain(int32_t page);
  /// Removes a reference. Without references the page is free, or kept if it has a node.
  void release(int32_t page);

  int32_t references(int32_t page) const { return at(page).references; }
  PrefixNode* node(int32_t page) const { return at(page).node; }
  /// Sets the node whose contents a held page has; null: none.
  void set_node(int32_t page, PrefixNode* node) { at(page).node = node; }
  /// Sets a function that is called when a kept page is evicted, before its contents are lost. It
  /// must not throw.
  void on_evict(std::function<void(PrefixNode*, int32_t page)> told) { told_ = std::move(told); }
  /// Evicts all kept pages.
  void clear_kept();
  /// Frees a kept page without a call of on_evict's function.
  void drop(int32_t page);

  // Contents of pages, of page_bytes() each.
  Status copy(int32_t from, int32_t to) {
    return device_.copy(memory(from), memory(to), page_bytes_);
  }
  Status read(int32_t page, std::span<std::byte> to) const {
    return device_.read(memory(page), to);
  }
  Status write(std::span<const std::byte> from, int32_t page) {
    return device_.write(from, memory(page));
  }
  std::byte* const* slab_addresses() const { return addresses_.data(); }

 private:
  struct Page {
    int32_t references = 0;
    int32_t before = -1, after = -1;  ///< in the list of kept pages
    bool exists = false;
    bool touched = false;  ///< acquired before
    uint32_t counted = 0;
    PrefixNode* node = nullptr;
  };
  /// The result of shrinking: whole slabs, and a part of the slab after them.
  struct Cut {
    size_t slabs = 0;                ///< whole slabs that stay
    int32_t rest = 0;                ///< pages that stay of the slab after them
    int32_t left = 0;                ///< pages that stay in all
    std::unique_ptr<Buffer> buffer;  ///< new memory for the rest
  };

  MemoryRef memory(int32_t page) const;
  Page& at(int32_t page) { return pages_[static_cast<size_t>(page)]; }
  const Page& at(int32_t page) const { return pages_[static_cast<size_t>(page)]; }
  bool in_use(int32_t page) const { return at(page).references > 0 || at(page).node != nullptr; }
  int32_t pages_of(const Buffer& slab) const {
    return static_cast<int32_t>(slab.size() / page_bytes_);
  }
  void keep(int32_t page);
  void unkeep(int32_t page);
  void evict_oldest();
  Result<Cut> plan_cut(int32_t pages);
  /// Removes the free pages from `first` on from the stack, or puts them back.
  void hide_free(int32_t first);
  void show_free(int32_t first);
  /// Copies the rest and frees all slabs behind the cut. No page behind the cut is in use.
  Status cut_off(Cut& cut);
  /// Frees the slabs from `first` on. No page in them is held or kept.
  void drop_slabs(size_t first);
  void drop_page(int32_t page);
  Status move(int32_t from, int32_t to);

  Device& device_;
  int64_t page_bytes_;
  int32_t pages_per_slab_ = 1;
  int32_t size_ = 0;
  int32_t touched_ = 0;
  uint32_t count_ = 0;
  std::vector<std::unique_ptr<Buffer>> slabs_;
  std::vector<std::byte*> addresses_;
  std::vector<Page> pages_;  ///< by id; ids behind the end of a short slab do not exist
  std::vector<int32_t>
      free_;  ///< a stack with room for every id, so that releasing allocates nothing
  int32_t kept_ = 0, oldest_ = -1, newest_ = -1;
  std::function<void(PrefixNode*, int32_t)> told_;
};

template <typename Moved>
Status PagePool::shrink(int32_t pages, Moved moved) {
  if (pages >= size_) return {};
  INFER_TRY_S(Cut cut, plan_cut(pages));
  while (held() + kept_ > cut.left) evict_oldest();
  const int32_t first = static_cast<int32_t>(cut.slabs) * pages_per_slab_ + cut.rest;
  hide_free(first);
  Status status;
  for (int32_t page = first; page < id_end() && status.ok(); ++page) {
    if (!in_use(page)) continue;
    const int32_t to = free_.back();
    status = move(page, to);
    if (status.ok()) moved(page, to);
  }
  if (status.ok()) status = cut_off(cut);
  if (!status.ok()) show_free(first);
  return status;
}

}  // namespace infer
