#include "engine/kv/block_pool.h"

#include <algorithm>
#include <utility>

#include "engine/core/checked.h"

namespace infer {

BlockPool::BlockPool(Device& device, int64_t page_bytes, int32_t pages_per_slab)
    : device_(device), page_bytes_(page_bytes), pages_per_slab_(pages_per_slab) {}

Status BlockPool::grow(int32_t pages) {
  const size_t slabs_before = slabs_.size();
  const auto undo = [&] {
    drop_slabs(slabs_before);
    std::erase_if(free_, [&](int32_t page) { return page >= static_cast<int32_t>(pages_.size()); });
  };
  try {
    for (int32_t left = pages; left > 0;) {
      const int32_t count = std::min(left, pages_per_slab_);
      const auto first = static_cast<int32_t>(slabs_.size()) * pages_per_slab_;
      pages_.resize(static_cast<size_t>(first + pages_per_slab_));
      free_.reserve(pages_.capacity());
      addresses_.push_back(nullptr);
      addresses_.pop_back();
      slabs_.emplace_back();
      slabs_.pop_back();
      Result<std::unique_ptr<Buffer>> slab = device_.alloc(count * page_bytes_, Purpose::kv);
      if (!slab) {
        undo();
        return std::move(slab).error();
      }
      addresses_.push_back((*slab)->address());
      slabs_.push_back(*std::move(slab));
      for (int32_t page = first; page < first + count; ++page) at(page).exists = true;
      // The lowest ids of the newest slab come first.
      for (int32_t page = first + count - 1; page >= first; --page) free_.push_back(page);
      size_ += count;
      left -= count;
    }
  } catch (...) {
    undo();
    throw;
  }
  return {};
}

size_t BlockPool::slabs_within(int32_t pages) const {
  int32_t count = 0;
  for (size_t slab = 0; slab < slabs_.size(); ++slab) {
    count += static_cast<int32_t>(slabs_[slab]->size() / page_bytes_);
    if (count > pages) return slab;
  }
  return slabs_.size();
}

void BlockPool::drop_slabs(size_t first) {
  for (size_t slab = first; slab < slabs_.size(); ++slab) {
    size_ -= static_cast<int32_t>(slabs_[slab]->size() / page_bytes_);
  }
  slabs_.resize(first);
  addresses_.resize(first);
  pages_.resize(first * static_cast<size_t>(pages_per_slab_));
}

int32_t BlockPool::acquire() {
  if (free_.empty()) {
    if (kept_ == 0) return -1;
    evict_oldest();
  }
  const int32_t page = free_.back();
  free_.pop_back();
  at(page).references = 1;
  return page;
}

void BlockPool::retain(int32_t page) {
  if (at(page).references++ == 0) unkeep(page);
}

void BlockPool::release(int32_t page) {
  if (--at(page).references > 0) return;
  if (at(page).node != nullptr) {
    keep(page);
  } else {
    free_.push_back(page);
  }
}

void BlockPool::keep(int32_t page) {
  at(page).before = newest_;
  at(page).after = -1;
  (newest_ < 0 ? oldest_ : at(newest_).after) = page;
  newest_ = page;
  ++kept_;
}

void BlockPool::unkeep(int32_t page) {
  const Page& p = at(page);
  (p.before < 0 ? oldest_ : at(p.before).after) = p.after;
  (p.after < 0 ? newest_ : at(p.after).before) = p.before;
  --kept_;
}

void BlockPool::evict_oldest() {
  const int32_t page = oldest_;
  unkeep(page);
  PrefixNode* const node = std::exchange(at(page).node, nullptr);
  told_(node, page);
  free_.push_back(page);
}

void BlockPool::clear_kept() {
  while (kept_ > 0) evict_oldest();
}

/// `to` is the topmost free page; it takes the place of `from` in everything.
Status BlockPool::move(int32_t from, int32_t to) {
  INFER_CHECK(device_.copy(memory(from), memory(to), page_bytes_));
  free_.pop_back();
  Page& source = at(from);
  if (source.references == 0) {
    (source.before < 0 ? oldest_ : at(source.before).after) = to;
    (source.after < 0 ? newest_ : at(source.after).before) = to;
  }
  at(to) = source;
  source = {.exists = true};
  return {};
}

MemoryRef BlockPool::memory(int32_t page) const {
  return {slabs_[static_cast<size_t>(page / pages_per_slab_)].get(),
          page % pages_per_slab_ * page_bytes_};
}

}  // namespace infer
