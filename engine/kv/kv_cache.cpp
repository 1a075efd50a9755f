#include "engine/kv/kv_cache.h"

#include <algorithm>

#include "engine/core/checked.h"

namespace infer {
namespace {

/// Slabs are about this large, so that the pool can later grow and shrink in steps.
constexpr int64_t kSlabBytes = int64_t{64} << 20;

int64_t pages_for(int64_t tokens) { return div_ceil<int64_t>(tokens, kPageTokens); }

}  // namespace

BlockPool::BlockPool(int32_t pages) : references_(static_cast<size_t>(pages), 0) {
  free_.reserve(static_cast<size_t>(pages));
  for (int32_t page = pages - 1; page >= 0; --page) free_.push_back(page);
}

int32_t BlockPool::acquire() {
  if (free_.empty()) return -1;
  const int32_t page = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(page)] = 1;
  return page;
}

void BlockPool::retain(int32_t page) { ++references_[static_cast<size_t>(page)]; }

void BlockPool::release(int32_t page) {
  if (--references_[static_cast<size_t>(page)] == 0) free_.push_back(page);
}

Result<std::unique_ptr<KvCache>> KvCache::create(Device& device, int64_t page_bytes,
                                                 int32_t pages) {
  const int64_t per_slab =
      std::clamp<int64_t>(kSlabBytes / std::max<int64_t>(page_bytes, 1), 1, std::max(pages, 1));
  std::unique_ptr<KvCache> cache(new KvCache(pages, static_cast<int32_t>(per_slab)));
  for (int64_t first = 0; first < pages; first += per_slab) {
    const int64_t count = std::min<int64_t>(per_slab, pages - first);
    INFER_TRY(std::unique_ptr<Buffer> slab, device.alloc(count * page_bytes, Purpose::kv));
    cache->slab_addresses_.push_back(slab->address());
    cache->slabs_.push_back(std::move(slab));
  }
  return cache;
}

KvCache::SequenceId KvCache::add_sequence() {
  tables_.emplace(next_id_, BlockTable());
  return next_id_++;
}

void KvCache::remove_sequence(SequenceId id) {
  rollback(id, 0);
  tables_.erase(id);
}

Status KvCache::reserve(SequenceId id, int64_t tokens) {
  BlockTable& table = tables_.at(id);
  const int64_t wanted = pages_for(table.length + tokens);
  const int64_t missing = wanted - static_cast<int64_t>(table.pages.size());
  if (missing > pool_.free_pages()) {
    return error(
        StatusCode::does_not_fit,
        "the context is full: {} more tokens after {} need {} pages of {} tokens, {} of {} "
        "are free",
        tokens, table.length, missing, kPageTokens, pool_.free_pages(), pool_.size());
  }
  for (int64_t i = 0; i < missing; ++i) table.pages.push_back(pool_.acquire());
  table.reserved = table.length + tokens;
  return {};
}

void KvCache::commit(SequenceId id, int64_t tokens) {
  BlockTable& table = tables_.at(id);
  table.length = std::min(table.length + tokens, table.reserved);
}

void KvCache::rollback(SequenceId id, int64_t length) {
  BlockTable& table = tables_.at(id);
  table.length = std::min(table.length, length);
  table.reserved = table.length;
  const auto keep = static_cast<size_t>(pages_for(table.length));
  while (table.pages.size() > keep) {
    pool_.release(table.pages.back());
    table.pages.pop_back();
  }
}

int64_t KvCache::room(SequenceId id) const {
  const BlockTable& t = table(id);
  return (static_cast<int64_t>(t.pages.size()) + pool_.free_pages()) * kPageTokens - t.length;
}

KvPages KvCache::pages(std::span<const SequenceId> ids) {
  size_t stride = 1;
  for (const SequenceId id : ids) stride = std::max(stride, table(id).pages.size());
  step_tables_.assign(stride * ids.size(), 0);
  for (size_t i = 0; i < ids.size(); ++i) {
    std::ranges::copy(table(ids[i]).pages,
                      step_tables_.begin() + static_cast<ptrdiff_t>(i * stride));
  }
  return {slab_addresses_.data(), pages_per_slab_, step_tables_.data(),
          static_cast<int32_t>(stride)};
}

}  // namespace infer
