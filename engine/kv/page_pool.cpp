#include "engine/kv/page_pool.h"

#include <algorithm>
#include <utility>

namespace infer {
namespace {

/// Slabs are at most this large, and a sixteenth of the pool, so that it grows and shrinks in
/// steps. If that is twice the present size of slabs, new slabs are larger.
constexpr int64_t kSlabBytes = int64_t{64} << 20;
constexpr int64_t kSlabs = 16;
constexpr int32_t kWiden = 2;

}  // namespace

PagePool::PagePool(Device& device, int64_t page_bytes) : device_(device), page_bytes_(page_bytes) {}

int32_t PagePool::slab_pages(int32_t pages) const {
  return static_cast<int32_t>(
      std::clamp<int64_t>(std::min(kSlabBytes / page_bytes_, pages / kSlabs), 1, INT32_MAX));
}

void PagePool::widen(int32_t pages) {
  const int32_t wanted = slab_pages(pages);
  if (slabs_.empty()) {
    pages_per_slab_ = wanted;
    return;
  }
  if (wanted < kWiden * pages_per_slab_) return;
  const auto to = [&](int32_t page) { return renumbered(page, pages_per_slab_, wanted); };
  std::vector<Page> wider(slabs_.size() * static_cast<size_t>(wanted));
  free_.reserve(wider.capacity());
  for (int32_t page = 0; page < id_end(); ++page) {
    Page& moved = wider[static_cast<size_t>(to(page))];
    moved = at(page);
    moved.before = to(moved.before);
    moved.after = to(moved.after);
  }
  for (int32_t& page : free_) page = to(page);
  oldest_ = to(oldest_);
  newest_ = to(newest_);
  pages_ = std::move(wider);
  pages_per_slab_ = wanted;
}

Status PagePool::grow(int32_t pages) {
  const size_t slabs_before = slabs_.size();
  const auto undo = [&] {
    hide_free(static_cast<int32_t>(slabs_before) * pages_per_slab_);
    drop_slabs(slabs_before);
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

Result<PagePool::Cut> PagePool::plan_cut(int32_t pages) {
  const auto refused = [&](int32_t left) {
    return fail(StatusCode::does_not_fit, "the cache cannot shrink to {} pages: {} are in use",
                left, held());
  };
  if (held() > pages) return refused(pages);
  Cut cut;
  while (cut.left + pages_of(*slabs_[cut.slabs]) <= pages)
    cut.left += pages_of(*slabs_[cut.slabs++]);
  const int32_t rest = pages - cut.left;
  if (rest == 0) return cut;
  if (Result<std::unique_ptr<Buffer>> buffer = device_.alloc(rest * page_bytes_, Purpose::kv)) {
    cut.buffer = *std::move(buffer);
    cut.rest = rest;
    cut.left = pages;
  }
  if (held() > cut.left) return refused(cut.left);
  return cut;
}

void PagePool::hide_free(int32_t first) {
  std::erase_if(free_, [&](int32_t page) { return page >= first; });
}

void PagePool::show_free(int32_t first) {
  for (int32_t page = first; page < id_end(); ++page) {
    if (at(page).exists && !in_use(page)) free_.push_back(page);
  }
}

Status PagePool::cut_off(Cut& cut) {
  const int32_t first = static_cast<int32_t>(cut.slabs) * pages_per_slab_;
  for (int32_t page = 0; page < cut.rest; ++page) {
    if (!in_use(first + page)) continue;
    INFER_CHECK(
        device_.copy(memory(first + page), {cut.buffer.get(), page * page_bytes_}, page_bytes_));
  }
  if (cut.rest == 0) {
    drop_slabs(cut.slabs);
    return {};
  }
  drop_slabs(cut.slabs + 1);
  for (int32_t page = first + cut.rest; page < id_end(); ++page) drop_page(page);
  // What is not in use was not copied.
  for (int32_t page = first; page < first + cut.rest; ++page) {
    if (in_use(page) || !at(page).touched) continue;
    at(page).touched = false;
    --touched_;
  }
  addresses_.back() = cut.buffer->address();
  slabs_.back() = std::move(cut.buffer);
  return {};
}

void PagePool::drop_page(int32_t page) {
  if (!at(page).exists) return;
  --size_;
  touched_ -= at(page).touched ? 1 : 0;
  at(page) = {};
}

void PagePool::drop_slabs(size_t first) {
  const size_t ids = first * static_cast<size_t>(pages_per_slab_);
  for (auto page = static_cast<int32_t>(ids); page < id_end(); ++page) drop_page(page);
  slabs_.resize(first);
  addresses_.resize(first);
  pages_.resize(ids);
}

int32_t PagePool::acquire() {
  if (free_.empty()) {
    if (kept_ == 0) return -1;
    evict_oldest();
  }
  const int32_t page = free_.back();
  free_.pop_back();
  at(page).references = 1;
  if (!std::exchange(at(page).touched, true)) ++touched_;
  return page;
}

void PagePool::retain(int32_t page) {
  if (at(page).references++ == 0) unkeep(page);
}

void PagePool::release(int32_t page) {
  if (--at(page).references > 0) return;
  if (at(page).node != nullptr) {
    keep(page);
  } else {
    free_.push_back(page);
  }
}

void PagePool::keep(int32_t page) {
  at(page).before = newest_;
  at(page).after = -1;
  (newest_ < 0 ? oldest_ : at(newest_).after) = page;
  newest_ = page;
  ++kept_;
}

void PagePool::unkeep(int32_t page) {
  const Page& p = at(page);
  (p.before < 0 ? oldest_ : at(p.before).after) = p.after;
  (p.after < 0 ? newest_ : at(p.after).before) = p.before;
  --kept_;
}

void PagePool::evict_oldest() {
  const int32_t page = oldest_;
  unkeep(page);
  PrefixNode* const node = std::exchange(at(page).node, nullptr);
  told_(node, page);
  free_.push_back(page);
}

void PagePool::drop(int32_t page) {
  unkeep(page);
  at(page).node = nullptr;
  free_.push_back(page);
}

void PagePool::clear_kept() {
  while (kept_ > 0) evict_oldest();
}

/// `to` is the topmost free page; it takes the place of `from` in everything.
Status PagePool::move(int32_t from, int32_t to) {
  INFER_CHECK(copy(from, to));
  free_.pop_back();
  Page& source = at(from);
  if (source.references == 0) {
    (source.before < 0 ? oldest_ : at(source.before).after) = to;
    (source.after < 0 ? newest_ : at(source.after).before) = to;
  }
  if (!at(to).touched) ++touched_;
  at(to) = source;
  source = {.exists = true, .touched = true};
  return {};
}

MemoryRef PagePool::memory(int32_t page) const {
  return {slabs_[static_cast<size_t>(page / pages_per_slab_)].get(),
          page % pages_per_slab_ * page_bytes_};
}

}  // namespace infer
