#include "engine/kv/kv_cache.h"

#include <algorithm>

#include "engine/core/checked.h"

namespace infer {
namespace {

/// Slabs are at most this large, and a sixteenth of the pool, so that it grows and shrinks in
/// steps.
constexpr int64_t kSlabBytes = int64_t{64} << 20;
constexpr int64_t kSlabs = 16;

int64_t pages_for(int64_t tokens) { return div_ceil<int64_t>(tokens, kPageTokens); }

}  // namespace

KvCache::KvCache(Device& device, const KvLayout& layout, const KvOptions& options)
    : device_(device), kinds_(layout.kinds), options_(options), tree_(layout.kinds.size()) {}

Result<std::unique_ptr<KvCache>> KvCache::create(Device& device, const KvLayout& layout,
                                                 std::span<const int32_t> pages,
                                                 const KvOptions& options) {
  std::unique_ptr<KvCache> cache(new KvCache(device, layout, options));
  cache->pools_.reserve(layout.kinds.size());
  for (size_t k = 0; k < layout.kinds.size(); ++k) {
    const int64_t bytes = round_up(layout.kinds[k].page_bytes, device.alignment());
    const int64_t per_slab =
        std::clamp<int64_t>(std::min(kSlabBytes / bytes, pages[k] / kSlabs), 1, INT32_MAX);
    BlockPool& pool = cache->pools_.emplace_back(device, bytes, static_cast<int32_t>(per_slab));
    pool.on_evict(
        [&cache = *cache, k](PrefixNode* node, int32_t page) { cache.evicted(node, k, page); });
    INFER_CHECK_R(pool.grow(pages[k]));
  }
  INFER_CHECK_R(cache->open_stores());
  cache->step_tables_.resize(layout.kinds.size());
  cache->step_pages_.resize(layout.kinds.size());
  return cache;
}

Status KvCache::open_stores() {
  stores_.resize(pools_.size());
  if (options_.folder.empty() || !options_.reuse) return {};
  int64_t bytes = 0;  // of a page of each kind
  for (const BlockPool& pool : pools_) bytes += pool.page_bytes();
  const int64_t slots =
      std::min<int64_t>(options_.folder_bytes / std::max<int64_t>(bytes, 1), int64_t{1} << 16);
  if (slots <= 0) return {};
  for (size_t k = 0; k < pools_.size(); ++k) {
    INFER_TRY_S(stores_[k], PageStore::create(options_.folder, pools_[k].page_bytes(),
                                              static_cast<int32_t>(slots)));
  }
  return {};
}

/// A kept page leaves memory: for the file if there is one. What cannot be written is lost.
void KvCache::evicted(PrefixNode* node, size_t kind, int32_t page) {
  node->pages[kind] = -1;
  ++node->users;  // whatever else goes, this node stays till it is done with
  PageStore* const store = stores_[kind].get();
  if (store != nullptr && node->stored[kind] < 0 &&
      device_.read(pools_[kind].memory(page), store->buffer()).ok()) {
    if (PrefixNode* oldest = store->oldest(); oldest != nullptr) {
      store->drop(oldest->stored[kind]);
      oldest->stored[kind] = -1;
      tree_.prune(oldest);
    }
    node->stored[kind] = store->put(node);
  }
  --node->users;
  tree_.prune(node);
}

/// Brings a node's page back into memory, held by one reference, or retains the one that is there.
bool KvCache::fetch(PrefixNode* node, size_t kind) {
  BlockPool& pool = pools_[kind];
  if (node->pages[kind] >= 0) {
    pool.retain(node->pages[kind]);
    return true;
  }
  const int32_t page = pool.acquire();
  if (page < 0) return false;
  // Making room may have cost the node its slot.
  PageStore& store = *stores_[kind];
  if (node->stored[kind] < 0 || !store.get(node->stored[kind]).ok() ||
      !device_.write(store.buffer(), pool.memory(page)).ok()) {
    pool.release(page);
    return false;
  }
  node->pages[kind] = page;
  pool.set_node(page, node);
  return true;
}

KvCache::SequenceId KvCache::add_sequence() {
  Table fresh;
  fresh.kinds.resize(kinds_.size());
  tables_.emplace(next_id_, std::move(fresh));
  return next_id_++;
}

KvCache::SequenceId KvCache::fork(SequenceId id) {
  Table copy = table(id);
  copy.reserved = copy.length;
  copy.in_use = false;
  for (Pages& pages : copy.kinds) pages.ids.resize(static_cast<size_t>(pages_for(copy.length)));
  const auto& made = tables_.emplace(next_id_, std::move(copy)).first->second;
  for (PrefixNode* node : made.nodes) ++node->users;
  for (size_t k = 0; k < pools_.size(); ++k) {
    for (const int32_t page : made.kinds[k].ids) {
      if (page >= 0) pools_[k].retain(page);
    }
  }
  return next_id_++;
}

void KvCache::remove_sequence(SequenceId id) {
  forget(table(id), 0);
  tables_.erase(id);
}

void KvCache::set_in_use(SequenceId id, bool in_use) {
  table(id).in_use = in_use;
  table(id).last_use = ++clock_;
}

int64_t KvCache::first_page(size_t kind, int64_t length, int64_t margin) const {
  const int64_t window = kinds_[kind].window;
  return window == 0 ? 0 : std::max<int64_t>(0, length - margin - window + 1) / kPageTokens;
}

int64_t KvCache::reuse(SequenceId id, std::span<const int32_t> tokens, int64_t limit) {
  Table& t = table(id);
  if (t.length > 0 || !options_.reuse) return t.length;
  const int64_t most = std::min<int64_t>(limit, static_cast<int64_t>(tokens.size())) / kPageTokens;
  std::vector<PrefixNode*> path;
  std::vector<int64_t> run(kinds_.size(), 0);  // pages present up to the end of the path
  size_t usable = 0;
  PrefixNode* node = tree_.root();
  for (int64_t p = 0; p < most; ++p) {
    node =
        tree_.find(node, tokens.subspan(static_cast<size_t>(p * kPageTokens)).first<kPageTokens>());
    if (node == nullptr) break;
    path.push_back(node);
    bool complete = true;
    for (size_t k = 0; k < kinds_.size(); ++k) {
      run[k] = node->pages[k] >= 0 || node->stored[k] >= 0 ? run[k] + 1 : 0;
      complete &= run[k] >= p + 1 - first_page(k, (p + 1) * kPageTokens, 0);
    }
    if (complete) usable = path.size();
  }
  if (usable == 0) return 0;
  path.resize(usable);
  const auto length = static_cast<int64_t>(usable) * kPageTokens;
  for (size_t k = 0; k < kinds_.size(); ++k) {
    Pages& pages = t.kinds[k];
    pages.first = first_page(k, length, 0);
    pages.ids.assign(usable, -1);
  }
  // Nothing below allocates. While pages are fetched the nodes are in use, and those that lie in
  // memory are held first, so that fetching does not push them out.
  t.nodes = std::move(path);
  for (PrefixNode* used : t.nodes) ++used->users;
  t.length = t.reserved = length;
  for (const bool in_memory : {true, false}) {
    for (size_t k = 0; k < kinds_.size(); ++k) {
      Pages& pages = t.kinds[k];
      for (auto p = static_cast<size_t>(pages.first); p < usable; ++p) {
        PrefixNode* const wanted = t.nodes[p];
        if (pages.ids[p] >= 0 || (wanted->pages[k] >= 0) != in_memory) continue;
        if (!fetch(wanted, k)) {
          forget(t, 0);
          return 0;
        }
        pages.ids[p] = wanted->pages[k];
      }
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

bool KvCache::make_available(size_t kind, int64_t pages, const Table& keep) {
  while (pools_[kind].available() < pages) {
    if (!drop_unused(&keep)) return false;
  }
  return true;
}

int32_t KvCache::shared_tail(const Table& t, size_t kind) const {
  if (t.length % kPageTokens == 0) return -1;
  const int32_t page = t.kinds[kind].ids[static_cast<size_t>(t.length / kPageTokens)];
  const bool shared = pools_[kind].references(page) > 1 || pools_[kind].node(page) != nullptr;
  return shared ? page : -1;
}

bool KvCache::must_copy(const Table& t, size_t kind) const {
  const int32_t tail = shared_tail(t, kind);
  return tail >= 0 && pools_[kind].references(tail) > 1;
}

/// Copies the page that is to be written next. Where nobody else holds it and no other is to be
/// had, it is no longer known instead.
Status KvCache::own_tail(Table& t, size_t kind) {
  const int32_t page = shared_tail(t, kind);
  if (page < 0) return {};
  BlockPool& pool = pools_[kind];
  const int32_t own = pool.acquire();
  if (own < 0) {
    PrefixNode* const node = pool.node(page);
    pool.set_node(page, nullptr);
    node->pages[kind] = -1;
    tree_.prune(node);
    return {};
  }
  if (Status status = device_.copy(pool.memory(page), pool.memory(own), pool.page_bytes());
      !status.ok()) {
    pool.release(own);
    return status;
  }
  pool.release(page);
  t.kinds[kind].ids[static_cast<size_t>(t.length / kPageTokens)] = own;
  return {};
}

Status KvCache::reserve(SequenceId id, int64_t count) {
  Table& t = table(id);
  if (t.length + count > options_.context) {
    return error(StatusCode::does_not_fit, "the context is full: {} tokens after {}, it holds {}",
                 count, t.length, options_.context);
  }
  const int64_t wanted = pages_for(t.length + count);
  for (size_t k = 0; k < pools_.size(); ++k) {
    // What is dropped may have shared the tail.
    const auto missing_now = [&] {
      return wanted - static_cast<int64_t>(t.kinds[k].ids.size()) + (must_copy(t, k) ? 1 : 0);
    };
    int64_t missing = missing_now();
    while (pools_[k].available() < missing && drop_unused(&t)) missing = missing_now();
    if (pools_[k].available() < missing) {
      return error(StatusCode::does_not_fit,
                   "the cache is full: {} more tokens after {} need {} pages of {} tokens, {} of "
                   "{} are available",
                   count, t.length, missing, kPageTokens, pools_[k].available(), pools_[k].size());
    }
    t.kinds[k].ids.reserve(static_cast<size_t>(wanted));
  }
  for (size_t k = 0; k < pools_.size(); ++k) {
    std::vector<int32_t>& ids = t.kinds[k].ids;
    const bool copy = must_copy(t, k);
    if (copy) INFER_CHECK(own_tail(t, k));
    while (static_cast<int64_t>(ids.size()) < wanted) ids.push_back(pools_[k].acquire());
    if (!copy) INFER_CHECK(own_tail(t, k));
  }
  t.reserved = t.length + count;
  return {};
}

void KvCache::commit(SequenceId id, std::span<const int32_t> tokens, int64_t count) {
  Table& t = table(id);
  t.length = std::min(t.length + count, t.reserved);
  t.last_use = ++clock_;
  if (options_.reuse && !t.restored) learn(t, tokens);
  let_go_behind_windows(t);
}

/// Makes the full pages known, or takes those that are known already instead of the own ones.
void KvCache::learn(Table& t, std::span<const int32_t> tokens) {
  PrefixNode* node = t.nodes.empty() ? tree_.root() : t.nodes.back();
  while (static_cast<int64_t>(t.nodes.size() + 1) * kPageTokens <= t.length) {
    const size_t p = t.nodes.size();
    try {
      t.nodes.reserve(p + 1);
      node = tree_.find_or_add(node, tokens.subspan(p * kPageTokens).first<kPageTokens>());
    } catch (const std::bad_alloc&) {
      return;  // the pages are this sequence's alone, for the time being
    }
    ++node->users;
    t.nodes.push_back(node);
    for (size_t k = 0; k < pools_.size(); ++k) {
      int32_t& page = t.kinds[k].ids[p];
      if (page < 0) continue;
      int32_t& known = node->pages[k];
      if (known < 0 && pools_[k].node(page) == nullptr) {
        known = page;
        pools_[k].set_node(page, node);
      } else if (known >= 0 && known != page) {
        pools_[k].retain(known);
        pools_[k].release(page);
        page = known;
      }
    }
  }
}

void KvCache::let_go_behind_windows(Table& t) {
  for (size_t k = 0; k < pools_.size(); ++k) {
    Pages& pages = t.kinds[k];
    for (const int64_t end = first_page(k, t.length, kKvRollback); pages.first < end;
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
  for (size_t k = 0; k < pools_.size(); ++k) {
    if (first_page(k, length, 0) < t.kinds[k].first) length = 0;
  }
  forget(t, length);
  return length;
}

void KvCache::forget(Table& t, int64_t length) {
  t.length = t.reserved = length;
  if (length == 0) t.restored = false;
  const auto keep = static_cast<size_t>(pages_for(length));
  // From the end, so that of what is kept the last page of a text goes first.
  for (size_t k = 0; k < pools_.size(); ++k) {
    Pages& pages = t.kinds[k];
    while (pages.ids.size() > keep) {
      if (pages.ids.back() >= 0) pools_[k].release(pages.ids.back());
      pages.ids.pop_back();
    }
    if (length == 0) pages.first = 0;
  }
  while (static_cast<int64_t>(t.nodes.size()) > length / kPageTokens) {
    PrefixNode* const node = t.nodes.back();
    t.nodes.pop_back();
    --node->users;
    tree_.prune(node);
  }
}

Status KvCache::for_each_page(SequenceId id, const PageFn& fn) const {
  const Table& t = table(id);
  for (size_t k = 0; k < pools_.size(); ++k) {
    for (int64_t page = first_page(k, t.length, 0); page < pages_for(t.length); ++page) {
      const int32_t at = t.kinds[k].ids[static_cast<size_t>(page)];
      INFER_CHECK(fn(k, page, pools_[k].memory(at), pools_[k].page_bytes()));
    }
  }
  return {};
}

Status KvCache::restore(SequenceId id, std::span<const int32_t> tokens, const PageFn& fill) {
  Table& t = table(id);
  const auto length = static_cast<int64_t>(tokens.size());
  if (length > options_.context) {
    return error(StatusCode::does_not_fit, "{} tokens do not fit: the context holds {}", length,
                 options_.context);
  }
  const auto restored = [&]() -> Status {
    for (size_t k = 0; k < pools_.size(); ++k) {
      Pages& pages = t.kinds[k];
      pages.first = first_page(k, length, 0);
      pages.ids.assign(static_cast<size_t>(pages.first), -1);
      const int64_t count = pages_for(length) - pages.first;
      if (!make_available(k, count, t)) {
        return error(StatusCode::does_not_fit,
                     "the cache is full: {} tokens need {} pages of {} tokens, {} of {} are "
                     "available",
                     length, count, kPageTokens, pools_[k].available(), pools_[k].size());
      }
      pages.ids.reserve(static_cast<size_t>(pages_for(length)));
      for (int64_t i = 0; i < count; ++i) pages.ids.push_back(pools_[k].acquire());
    }
    t.length = t.reserved = length;
    return for_each_page(id, fill);
  }();
  if (!restored.ok()) {
    forget(t, 0);
    return restored;
  }
  t.restored = length > 0;
  return {};
}

std::span<const KvPages> KvCache::pages(std::span<const SequenceId> ids) {
  for (size_t k = 0; k < pools_.size(); ++k) {
    size_t stride = 1;
    for (const SequenceId id : ids) stride = std::max(stride, table(id).kinds[k].ids.size());
    std::vector<int32_t>& tables = step_tables_[k];
    tables.assign(stride * ids.size(), -1);
    for (size_t i = 0; i < ids.size(); ++i) {
      std::ranges::copy(table(ids[i]).kinds[k].ids,
                        tables.begin() + static_cast<ptrdiff_t>(i * stride));
    }
    step_pages_[k] = {pools_[k].slab_addresses(), pools_[k].pages_per_slab(),
                      pools_[k].page_bytes(), tables.data(), static_cast<int32_t>(stride)};
  }
  return step_pages_;
}

Status KvCache::resize(std::span<const int32_t> pages) {
  for (size_t k = 0; k < pools_.size(); ++k) {
    BlockPool& pool = pools_[k];
    if (pages[k] >= pool.size()) {
      INFER_CHECK(pool.grow(pages[k] - pool.size()));
      continue;
    }
    const auto moved = [&](int32_t from, int32_t to) {
      for (auto& [id, t] : tables_) std::ranges::replace(t.kinds[k].ids, from, to);
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

int64_t KvCache::step_bytes() const {
  int64_t bytes = 0;
  for (const BlockPool& pool : pools_) bytes += pool.pages_per_slab() * pool.page_bytes();
  return bytes;
}

Status KvCache::grow_step() {
  for (BlockPool& pool : pools_) INFER_CHECK(pool.grow(pool.pages_per_slab()));
  return {};
}

void KvCache::clear_kept() {
  for (BlockPool& pool : pools_) pool.clear_kept();
}

}  // namespace infer
