#include "engine/kv/kv_cache.h"

#include <algorithm>
#include <new>

#include "engine/core/checked.h"

namespace infer {
namespace {

/// Tokens for which a part of a page is worth a copy of the page.
constexpr int64_t kFewestCopied = 4;

std::vector<PagePool> empty_pools(std::span<Device* const> devices,
                                  const std::vector<KvKind>& kinds) {
  std::vector<PagePool> pools;
  pools.reserve(kinds.size());
  for (const KvKind& kind : kinds) {
    Device& device = *devices[static_cast<size_t>(kind.place)];
    pools.emplace_back(device, round_up(kind.page_bytes, device.alignment()));
  }
  return pools;
}

}  // namespace

KvCache::KvCache(std::span<Device* const> devices, const KvLayout& layout, const KvOptions& options)
    : kinds_(layout.kinds),
      stateful_(std::ranges::any_of(kinds_, &KvKind::state)),
      row_states_(std::ranges::all_of(
          kinds_,
          [&](const KvKind& kind) {
            return !kind.state || devices[static_cast<size_t>(kind.place)]->keeps_row_states();
          })),
      options_(options),
      pools_(empty_pools(devices, kinds_)),
      known_(kinds_, pools_),
      step_tables_(kinds_.size()),
      step_pages_(kinds_.size()) {}

Result<std::unique_ptr<KvCache>> KvCache::create(std::span<Device* const> devices,
                                                 const KvLayout& layout,
                                                 std::span<const int32_t> pages,
                                                 const KvOptions& options) {
  std::unique_ptr<KvCache> cache(new KvCache(devices, layout, options));
  for (size_t k = 0; k < layout.kinds.size(); ++k) INFER_CHECK_R(cache->grow(k, pages[k]));
  if (options.reuse && !options.folder.empty()) {
    INFER_CHECK_R(cache->known_.open_stores(options.folder, options.folder_bytes));
  }
  return cache;
}

KvCache::SequenceId KvCache::add_sequence() {
  add_sequence(next_id_);
  return next_id_++;
}

void KvCache::add_sequence(SequenceId id) {
  Table fresh;
  fresh.kinds.resize(kinds_.size());
  tables_.emplace(id, std::move(fresh));
}

KvCache::SequenceId KvCache::fork(SequenceId id) {
  fork(id, next_id_);
  return next_id_++;
}

void KvCache::fork(SequenceId id, SequenceId new_id) {
  Table copy = table(id);
  copy.reserved = copy.length;
  copy.in_use = false;
  for (size_t k = 0; k < kinds_.size(); ++k) {
    copy.kinds[k].ids.resize(static_cast<size_t>(kinds_[k].table_pages(copy.length)));
  }
  const auto& made = tables_.emplace(new_id, std::move(copy)).first->second;
  for (PrefixNode* node : made.nodes) known_.use(node);
  for (size_t k = 0; k < pools_.size(); ++k) {
    for (const int32_t page : made.kinds[k].ids) {
      if (page >= 0) pools_[k].retain(page);
    }
  }
}

void KvCache::remove_sequence(SequenceId id) {
  forget(table(id), 0);
  tables_.erase(id);
}

void KvCache::take_sequences(KvCache& other) {
  for (auto& [id, t] : other.tables_) {
    other.forget(t, 0);
    Table fresh;
    fresh.kinds.resize(kinds_.size());
    fresh.in_use = t.in_use;
    fresh.last_use = t.last_use;
    tables_.emplace(id, std::move(fresh));
  }
  next_id_ = other.next_id_;
  clock_ = other.clock_;
  other.tables_.clear();
}

void KvCache::set_in_use(SequenceId id, bool in_use) {
  table(id).in_use = in_use;
  table(id).last_use = ++clock_;
}

int64_t KvCache::reuse(SequenceId id, const PageKeys& keys, int64_t limit) {
  Table& t = table(id);
  limit = std::min(limit, keys.tokens());
  if (!shares(id) || limit <= t.length) return t.length;
  std::vector<PrefixNode*> path = known_.find(keys, limit / kPageTokens);
  const size_t usable = path.size();
  const auto full = static_cast<int64_t>(usable) * kPageTokens;
  KnownPages::Part part;
  if (!stateful_ && limit > full) {
    part = known_.find_part(path, keys, std::min(limit - full, int64_t{kPageTokens} - 1));
    if (full + part.tokens < std::max(full, t.length) + kFewestCopied) part = {};
  }
  const int64_t length = full + part.tokens;
  if (length <= t.length) return t.length;
  if (t.length > 0) {
    // What the sequence has is given up for them, so nothing below may fail. Nodes stay
    // while their pages or those of nodes below them are in memory.
    if (!known_.in_memory(path)) return t.length;
    forget(t, 0);
  }
  for (size_t k = 0; k < kinds_.size(); ++k) {
    Pages& pages = t.kinds[k];
    pages.first = first_seen_page(kinds_[k], length, 0);
    pages.ids.assign(static_cast<size_t>(kinds_[k].table_pages(length)), -1);
  }
  // Nothing below allocates. While pages are fetched the nodes are in use, and those that lie in
  // memory are held first, so that fetching does not push them out.
  t.nodes = std::move(path);
  for (PrefixNode* used : t.nodes) known_.use(used);
  t.length = t.reserved = length;
  t.lasting = static_cast<int64_t>(usable);
  t.rolling = 0;
  for (const bool in_memory : {true, false}) {
    for (size_t k = 0; k < kinds_.size(); ++k) {
      Pages& pages = t.kinds[k];
      for (auto p = static_cast<size_t>(pages.first); p < pages.ids.size(); ++p) {
        PrefixNode* const node = kinds_[k].state ? t.nodes.back()
                                 : p < usable    ? t.nodes[p]
                                                 : part.node;
        if (pages.ids[p] >= 0 || (node->pages[k] >= 0) != in_memory) continue;
        pages.ids[p] = known_.fetch(node, k);
        if (pages.ids[p] < 0) {
          forget(t, 0);
          return 0;
        }
      }
    }
  }
  for (size_t k = 0; k < kinds_.size(); ++k) {
    Pages& pages = t.kinds[k];
    for (const int64_t end = first_seen_page(kinds_[k], length, kKvRollback); pages.first > end;
         --pages.first) {
      const auto p = static_cast<size_t>(pages.first - 1);
      if (!known_.has(t.nodes[p], k)) break;
      pages.ids[p] = known_.fetch(t.nodes[p], k);
      if (pages.ids[p] < 0) break;
    }
  }
  return length;
}

bool KvCache::drop_unused(const Table* keep) {
  Table* oldest = nullptr;
  for (auto& [id, t] : tables_) {
    if (t.in_use || &t == keep || t.length == 0) continue;
    if (oldest == nullptr || t.last_use < oldest->last_use) oldest = &t;
  }
  if (oldest == nullptr) return false;
  forget(*oldest, 0);
  return true;
}

bool KvCache::make_available(size_t kind, const Table& keep) {
  return (grow_ && grow_(kind, Want::pages)) || drop_unused(&keep);
}

size_t KvCache::tail_index(const Table& t, size_t kind) const {
  return kinds_[kind].state ? 0 : static_cast<size_t>(t.length / kPageTokens);
}

int32_t KvCache::tail(const Table& t, size_t kind) const {
  if (kinds_[kind].state ? t.length == 0 : t.length % kPageTokens == 0) return -1;
  return t.kinds[kind].ids[tail_index(t, kind)];
}

bool KvCache::others_hold_tail(const Table& t, size_t kind) const {
  const int32_t page = tail(t, kind);
  return page >= 0 && pools_[kind].references(page) > 1;
}

Status KvCache::copy_tail(Table& t, size_t kind) {
  PagePool& pool = pools_[kind];
  const int32_t page = tail(t, kind);
  const int32_t own = pool.acquire();
  if (Status status = pool.copy(page, own); !status.ok()) {
    pool.release(own);
    return status;
  }
  pool.release(page);
  t.kinds[kind].ids[tail_index(t, kind)] = own;
  return {};
}

/// Copies the states, which a step is about to change.
Status KvCache::save_states(Table& t) {
  t.before.assign(pools_.size(), -1);
  for (size_t k = 0; k < pools_.size(); ++k) {
    if (!kinds_[k].state || t.length == 0) continue;
    t.before[k] = pools_[k].acquire();
    if (Status status = pools_[k].copy(t.kinds[k].ids[0], t.before[k]); !status.ok()) {
      drop_saved(t);
      return status;
    }
  }
  return {};
}

/// Takes pages for the states after each of the last `drafted` + 1 reserved tokens but the very
/// last. False, and nothing has changed, if some device cannot keep them or there are too few free
/// pages. Checkpoints make room up to KvOptions::draft_states.
bool KvCache::keep_row_states(Table& t, int64_t drafted) {
  if (!row_states_) return false;
  const bool planned = row_state_pages_ + drafted <= options_.draft_states;
  for (size_t k = 0; k < pools_.size(); ++k) {
    const int64_t given = pools_[k].available() - (planned ? 0 : pools_[k].kept());
    if (kinds_[k].state && given < drafted) return false;
  }
  std::vector<std::vector<int32_t>> kept(pools_.size());
  for (size_t k = 0; k < pools_.size(); ++k) {
    if (kinds_[k].state) kept[k].resize(static_cast<size_t>(drafted));
  }
  for (size_t k = 0; k < pools_.size(); ++k) {
    for (int32_t& page : kept[k]) page = pools_[k].acquire();
  }
  t.kept = std::move(kept);
  t.kept_from = t.reserved - drafted;
  row_state_pages_ += drafted;
  return true;
}

/// The states after `length` tokens, kept by a step, become the sequence's. False if they were not.
bool KvCache::take_row_state(Table& t, int64_t length) {
  if (t.kept.empty() || length < t.kept_from) return false;
  for (size_t k = 0; k < pools_.size(); ++k) {
    if (!kinds_[k].state) continue;
    std::swap(t.kinds[k].ids[0], t.kept[k][static_cast<size_t>(length - t.kept_from)]);
  }
  return true;
}

void KvCache::drop_saved(Table& t) {
  size_t rows = 0;
  for (size_t k = 0; k < t.kept.size(); ++k) {
    for (const int32_t page : t.kept[k]) pools_[k].release(page);
    rows = std::max(rows, t.kept[k].size());
  }
  row_state_pages_ -= static_cast<int64_t>(rows);
  t.kept.clear();
  for (size_t k = 0; k < t.before.size(); ++k) {
    if (t.before[k] >= 0) pools_[k].release(t.before[k]);
  }
  t.before.clear();
}

/// The states before the step are the sequence's again.
void KvCache::restore_saved(Table& t) {
  for (size_t k = 0; k < t.before.size(); ++k) {
    if (t.before[k] >= 0) std::swap(t.before[k], t.kinds[k].ids[0]);
  }
  drop_saved(t);
}

Status KvCache::reserve(SequenceId id, int64_t count, int64_t drafted) {
  Table& t = table(id);
  if (t.length + count > options_.context) {
    return error(StatusCode::does_not_fit,
                 "the context is full: {} more tokens after {}, it holds {}", count, t.length,
                 options_.context);
  }
  drop_saved(t);
  for (size_t k = 0; k < pools_.size(); ++k) {
    const int64_t wanted = kinds_[k].table_pages(t.length + count);
    // Worked out each time: what is dropped may have shared the tail.
    const auto missing = [&] {
      return wanted - static_cast<int64_t>(t.kinds[k].ids.size()) +
             (others_hold_tail(t, k) ? 1 : 0) + (kinds_[k].state && drafted > 0 ? 1 : 0);
    };
    while (grow_ && pools_[k].kept() > 0 && pools_[k].unused() < missing()) {
      if (!grow_(k, Want::kept)) break;
    }
    while (pools_[k].available() < missing()) {
      if (drafted > 0 ? grow_ && grow_(k, Want::pages) : make_available(k, t)) continue;
      return error(StatusCode::does_not_fit,
                   "the cache is full: {} more tokens after {} need {} pages of {} tokens, {} of "
                   "{} are available",
                   count, t.length, missing(), kPageTokens, pools_[k].available(),
                   pools_[k].size());
    }
    t.kinds[k].ids.reserve(static_cast<size_t>(wanted));
  }
  for (size_t k = 0; k < pools_.size(); ++k) {
    const int64_t wanted = kinds_[k].table_pages(t.length + count);
    std::vector<int32_t>& ids = t.kinds[k].ids;
    if (others_hold_tail(t, k)) INFER_CHECK(copy_tail(t, k));
    while (static_cast<int64_t>(ids.size()) < wanted) ids.push_back(pools_[k].acquire());
    // No other sequence holds the tail, but the prefix cache may know it. It stays there if there
    // is a page for a copy.
    const int32_t own = tail(t, k);
    if (own < 0 || pools_[k].node(own) == nullptr) continue;
    if (pools_[k].available() > (kinds_[k].state && drafted > 0 ? 1 : 0)) {
      INFER_CHECK(copy_tail(t, k));
    } else {
      known_.forget(k, own);
    }
  }
  t.reserved = t.length + count;
  if (stateful_ && drafted > 0 && !keep_row_states(t, drafted)) return save_states(t);
  return {};
}

int64_t KvCache::room(SequenceId id) const {
  int64_t tokens = options_.context;
  for (size_t k = 0; k < pools_.size(); ++k) {
    // Of a window a sequence needs as many pages however long it is.
    if (kinds_[k].state || kinds_[k].window > 0) continue;
    const auto pages = std::ssize(table(id).kinds[k].ids) + pools_[k].available();
    tokens = std::min(tokens, pages * kPageTokens);
  }
  return tokens;
}

void KvCache::shorten(SequenceId id, int64_t count) {
  Table& t = table(id);
  t.reserved = t.length + count;
  for (size_t k = 0; k < pools_.size(); ++k) {
    std::vector<int32_t>& ids = t.kinds[k].ids;
    for (const int64_t most = kinds_[k].table_pages(t.reserved); std::ssize(ids) > most;) {
      pools_[k].release(ids.back());
      ids.pop_back();
    }
  }
}

void KvCache::commit(SequenceId id, const PageKeys& keys, int64_t count, bool lasting) {
  Table& t = table(id);
  t.last_use = ++clock_;
  const int64_t length = std::min(t.length + count, t.reserved);
  if (stateful_ && length < t.reserved) {
    if (!take_row_state(t, length)) {
      rollback(id, t.length);
      return;
    }
    forget(t, length);  // the room for what is left out
  }
  drop_saved(t);
  t.length = length;
  if (options_.reuse && !t.restored) {
    learn(t, keys);
    if (stateful_) make_checkpoint(t, lasting);
  }
  let_go_behind_windows(t);
}

void KvCache::make_checkpoint(Table& t, bool lasting) {
  const int64_t full = t.length / kPageTokens;
  if (full == 0 || t.length % kPageTokens != 0 || static_cast<int64_t>(t.nodes.size()) < full) {
    return;
  }
  PrefixNode* const node = t.nodes[static_cast<size_t>(full - 1)];
  for (size_t k = 0; k < pools_.size(); ++k) {
    if (!kinds_[k].state) continue;
    int32_t& page = t.kinds[k].ids[0];
    page = known_.learn(node, k, page);
    if (t.rolling > 0 && t.rolling != full) {
      known_.drop(t.nodes[static_cast<size_t>(t.rolling - 1)], k);
    }
  }
  if (lasting || (full - t.lasting) * kPageTokens >= kCheckpointTokens) {
    node->lasting = true;
    t.lasting = full;
    t.rolling = 0;
  } else {
    t.rolling = full;
  }
}

/// Registers the full pages in the prefix cache. If an equal page is known already, uses that one
/// and releases the own.
void KvCache::learn(Table& t, const PageKeys& keys) {
  while (static_cast<int64_t>(t.nodes.size() + 1) * kPageTokens <= t.length) {
    const size_t p = t.nodes.size();
    try {
      t.nodes.reserve(p + 1);
      t.nodes.push_back(
          known_.use(p == 0 ? nullptr : t.nodes.back(), keys, static_cast<int64_t>(p)));
    } catch (const std::bad_alloc&) {
      return;  // the pages are this sequence's alone, for the time being
    }
    for (size_t k = 0; k < pools_.size(); ++k) {
      if (kinds_[k].state) continue;
      int32_t& page = t.kinds[k].ids[p];
      if (page >= 0) page = known_.learn(t.nodes.back(), k, page);
    }
  }
}

void KvCache::let_go_behind_windows(Table& t) {
  for (size_t k = 0; k < pools_.size(); ++k) {
    Pages& pages = t.kinds[k];
    for (const int64_t end = first_seen_page(kinds_[k], t.length, kKvRollback); pages.first < end;
         ++pages.first) {
      int32_t& page = pages.ids[static_cast<size_t>(pages.first)];
      pools_[k].release(page);
      page = -1;
    }
  }
}

int64_t KvCache::rollback(SequenceId id, int64_t length) {
  Table& t = table(id);
  length = std::min(length, t.length);
  const bool unchanged = length == t.length && (t.reserved == t.length || !t.before.empty());
  if (stateful_ && !unchanged) length = last_checkpoint(t, length);
  for (size_t k = 0; k < pools_.size(); ++k) {
    if (first_seen_page(kinds_[k], length, 0) < t.kinds[k].first) length = 0;
  }
  if (unchanged) restore_saved(t);
  forget(t, length);
  if (!stateful_ || unchanged || length == 0) return length;
  for (size_t k = 0; k < pools_.size(); ++k) {
    if (!kinds_[k].state) continue;
    int32_t& page = t.kinds[k].ids[0];
    pools_[k].release(page);
    page = known_.fetch(t.nodes.back(), k);
    if (page >= 0) continue;
    t.kinds[k].ids.clear();
    forget(t, 0);
    return 0;
  }
  return length;
}

int64_t KvCache::last_checkpoint(const Table& t, int64_t length) const {
  const auto usable = [&](int64_t full) {
    for (size_t k = 0; k < pools_.size(); ++k) {
      if (kinds_[k].state ? !known_.has(t.nodes[static_cast<size_t>(full - 1)], k)
                          : first_seen_page(kinds_[k], full * kPageTokens, 0) < t.kinds[k].first) {
        return false;
      }
    }
    return true;
  };
  int64_t full = std::min(length / kPageTokens, static_cast<int64_t>(t.nodes.size()));
  while (full > 0 && !usable(full)) --full;
  return full * kPageTokens;
}

void KvCache::forget(Table& t, int64_t length) {
  t.length = t.reserved = length;
  if (length == 0) t.restored = false;
  drop_saved(t);
  t.lasting = std::min(t.lasting, length / kPageTokens);
  if (t.rolling > length / kPageTokens) t.rolling = 0;
  // From the end: kept pages are evicted in this order, so the last page of a text goes first.
  for (size_t k = 0; k < pools_.size(); ++k) {
    const auto keep = static_cast<size_t>(kinds_[k].table_pages(length));
    Pages& pages = t.kinds[k];
    while (pages.ids.size() > keep) {
      if (pages.ids.back() >= 0) pools_[k].release(pages.ids.back());
      pages.ids.pop_back();
    }
    if (length == 0) pages.first = 0;
  }
  while (static_cast<int64_t>(t.nodes.size()) > length / kPageTokens) {
    known_.leave(t.nodes.back());
    t.nodes.pop_back();
  }
}

Status KvCache::read_page(SequenceId id, size_t kind, int64_t page, std::span<std::byte> to) const {
  return pools_[kind].read(table(id).kinds[kind].ids[static_cast<size_t>(page)], to);
}

Status KvCache::write_page(SequenceId id, size_t kind, int64_t page,
                           std::span<const std::byte> from) {
  return pools_[kind].write(from, table(id).kinds[kind].ids[static_cast<size_t>(page)]);
}

Status KvCache::restore(SequenceId id, int64_t length, std::span<const int64_t> first) {
  Table& t = table(id);
  if (length > options_.context) {
    return error(StatusCode::does_not_fit, "{} tokens do not fit: the context holds {}", length,
                 options_.context);
  }
  for (size_t k = 0; k < pools_.size(); ++k) {
    const int64_t wanted = kinds_[k].table_pages(length);
    const int64_t count = wanted - first[k];
    while (pools_[k].available() < count) {
      if (make_available(k, t)) continue;
      return error(StatusCode::does_not_fit,
                   "the cache is full: {} tokens need {} pages of {} tokens, {} of {} are "
                   "available",
                   length, count, kPageTokens, pools_[k].available(), pools_[k].size());
    }
    t.kinds[k].ids.reserve(static_cast<size_t>(wanted));
  }
  for (size_t k = 0; k < pools_.size(); ++k) {
    Pages& pages = t.kinds[k];
    pages.first = first[k];
    pages.ids.assign(static_cast<size_t>(pages.first), -1);
    while (static_cast<int64_t>(pages.ids.size()) < kinds_[k].table_pages(length)) {
      pages.ids.push_back(pools_[k].acquire());
    }
  }
  t.length = t.reserved = length;
  t.restored = length > 0;
  t.last_use = ++clock_;
  return {};
}

std::span<const KvPages> KvCache::pages(std::span<const SequenceId> ids) {
  for (size_t k = 0; k < pools_.size(); ++k) {
    size_t stride = 1;
    for (const SequenceId id : ids) stride = std::max(stride, table(id).kinds[k].ids.size());
    const auto keeps = [&](const Table& t) { return kinds_[k].state && !t.kept.empty(); };
    const auto kept_at = [](const Table& t) { return static_cast<size_t>(t.kept_from - t.length); };
    for (const SequenceId id : ids) {
      const Table& t = table(id);
      if (keeps(t)) stride = std::max(stride, kept_at(t) + t.kept[k].size());
    }
    std::vector<int32_t>& tables = step_tables_[k];
    tables.assign(stride * ids.size(), -1);
    for (size_t i = 0; i < ids.size(); ++i) {
      const Table& t = table(ids[i]);
      const auto row = tables.begin() + static_cast<ptrdiff_t>(i * stride);
      std::ranges::copy(t.kinds[k].ids, row);
      if (keeps(t)) {
        std::ranges::copy(t.kept[k], row + static_cast<ptrdiff_t>(kept_at(t)));
      }
    }
    step_pages_[k] = {pools_[k].slab_addresses(), pools_[k].pages_per_slab(),
                      pools_[k].page_bytes(), tables.data(), static_cast<int32_t>(stride)};
  }
  return step_pages_;
}

Status KvCache::resize(std::span<const int32_t> pages) {
  for (size_t k = 0; k < pools_.size(); ++k) {
    PagePool& pool = pools_[k];
    if (pages[k] >= pool.size()) {
      INFER_CHECK(grow(k, pages[k] - pool.size()));
      continue;
    }
    const auto moved = [&](int32_t from, int32_t to) {
      for (auto& [id, t] : tables_) {
        std::ranges::replace(t.kinds[k].ids, from, to);
        if (!t.before.empty() && t.before[k] == from) t.before[k] = to;
        if (!t.kept.empty()) std::ranges::replace(t.kept[k], from, to);
      }
      if (PrefixNode* node = pool.node(to); node != nullptr) node->pages[k] = to;
    };
    Status status = pool.shrink(pages[k], moved);
    while (status.code() == StatusCode::does_not_fit && drop_unused(nullptr)) {
      status = pool.shrink(pages[k], moved);
    }
    INFER_CHECK(status);
  }
  return {};
}

Status KvCache::grow(size_t kind, int32_t pages) {
  PagePool& pool = pools_[kind];
  const int32_t before = pool.pages_per_slab();
  pool.widen(pool.size() + pages);
  if (const int32_t now = pool.pages_per_slab(); now != before) {
    known_.renumbered(kind);
    for (auto& [id, t] : tables_) {
      for (int32_t& page : t.kinds[kind].ids) page = PagePool::renumbered(page, before, now);
      if (!t.before.empty()) {
        t.before[kind] = PagePool::renumbered(t.before[kind], before, now);
      }
      if (t.kept.empty()) continue;
      for (int32_t& page : t.kept[kind]) page = PagePool::renumbered(page, before, now);
    }
  }
  return pool.grow(pages);
}

PageCounts KvCache::count_pages() {
  PageCounts counts;
  for (size_t k = 0; k < pools_.size(); ++k) {
    PagePool& pool = pools_[k];
    int64_t running = 0;
    pool.begin_count();
    for (const auto& [id, t] : tables_) {
      if (!t.in_use) continue;
      running += std::ranges::count_if(t.kinds[k].ids,
                                       [&](int32_t page) { return page >= 0 && pool.count(page); });
    }
    counts.total += pool.size();
    if (!kinds_[k].state) counts.most = std::max<int64_t>(counts.most, pool.size());
    counts.running += running;
    counts.idle += pool.held() - running;
    counts.kept += pool.kept();
    counts.free += pool.unused();
  }
  for (const auto& [id, t] : tables_) {
    if (counts.listed == PageCounts::kMostListed) break;
    SequencePages pages{id};
    for (size_t k = 0; k < pools_.size(); ++k) {
      for (const int32_t page : t.kinds[k].ids) {
        if (page < 0) continue;
        ++pages.held;
        if (pools_[k].references(page) > 1) ++pages.shared;
      }
    }
    if (pages.held > 0) counts.sequences[counts.listed++] = pages;
  }
  return counts;
}

int64_t KvCache::untouched_bytes(int32_t place) const {
  int64_t bytes = 0;
  for (size_t k = 0; k < pools_.size(); ++k) {
    if (kinds_[k].place == place) bytes += pools_[k].untouched_bytes();
  }
  return bytes;
}

void KvCache::clear_kept() {
  for (PagePool& pool : pools_) pool.clear_kept();
}

}  // namespace infer
