#include "engine/kv/known_pages.h"

#include <algorithm>
#include <new>

namespace infer {

int64_t first_seen_page(const KvKind& kind, int64_t length, int64_t margin) {
  return kind.window == 0 ? 0
                          : std::max<int64_t>(0, length - margin - kind.window + 1) / kPageTokens;
}

KnownPages::KnownPages(const std::vector<KvKind>& kinds, std::vector<PagePool>& pools)
    : kinds_(kinds), pools_(pools), stores_(kinds.size()), tree_(kinds.size()) {
  for (size_t k = 0; k < pools_.size(); ++k) {
    pools_[k].on_evict([this, k](PrefixNode* node, int32_t page) { evicted(node, k, page); });
  }
}

Status KnownPages::open_stores(const std::string& folder, int64_t bytes) {
  int64_t each = 0;  // bytes of a page of each kind
  for (const PagePool& pool : pools_) each += pool.page_bytes();
  const int64_t slots = std::min<int64_t>(bytes / std::max<int64_t>(each, 1), int64_t{1} << 16);
  if (slots <= 0) return {};
  for (size_t k = 0; k < pools_.size(); ++k) {
    INFER_TRY_S(stores_[k],
                PageStore::create(folder, pools_[k].page_bytes(), static_cast<int32_t>(slots)));
  }
  return {};
}

std::vector<PrefixNode*> KnownPages::find(const PageKeys& keys, int64_t limit) const {
  std::vector<PrefixNode*> path;
  std::vector<int64_t> run(kinds_.size(), 0);  // pages present up to the end of the path
  size_t usable = 0;
  const PrefixNode* node = tree_.root(keys.adapters());
  for (int64_t p = 0; node != nullptr && p < limit; ++p) {
    PrefixNode* const next = tree_.find(node, keys.page(p));
    if (next == nullptr) break;
    path.push_back(next);
    bool complete = true;
    for (size_t k = 0; k < kinds_.size(); ++k) {
      run[k] = has(next, k) ? run[k] + 1 : 0;
      // Of states that at the end alone.
      const int64_t first =
          kinds_[k].state ? p : first_seen_page(kinds_[k], (p + 1) * kPageTokens, 0);
      complete &= run[k] >= p + 1 - first;
    }
    if (complete) usable = path.size();
    node = next;
  }
  path.resize(usable);
  return path;
}

KnownPages::Part KnownPages::find_part(std::span<PrefixNode* const> path, const PageKeys& keys,
                                       int64_t limit) const {
  constexpr int kMostCompared = 64;
  const auto next = keys.page(std::ssize(path));
  const auto tokens = std::span(next).first(static_cast<size_t>(limit));
  Part best;
  const PrefixNode* const parent = path.empty() ? tree_.root(keys.adapters()) : path.back();
  PrefixNode* node = parent == nullptr ? nullptr : parent->newest;
  for (int i = 0; node != nullptr && i < kMostCompared; ++i, node = node->older) {
    const auto same = std::ranges::mismatch(node->tokens, tokens).in2 - tokens.begin();
    if (same <= best.tokens) continue;
    if (std::ranges::all_of(node->pages, [](int32_t page) { return page >= 0; }))
      best = {node, same};
  }
  return best;
}

int64_t KnownPages::common(const PageKeys& keys, int64_t limit) const {
  const PrefixNode* node = tree_.root(keys.adapters());
  for (int64_t pages = 0; node != nullptr && pages < limit; ++pages) {
    node = tree_.find(node, keys.page(pages));
    if (node == nullptr) return pages;
  }
  return node == nullptr ? 0 : limit;
}

bool KnownPages::in_memory(std::span<PrefixNode* const> path) const {
  const auto pages = static_cast<int64_t>(path.size());
  for (size_t k = 0; k < kinds_.size(); ++k) {
    const int64_t first =
        kinds_[k].state ? pages - 1 : first_seen_page(kinds_[k], pages * kPageTokens, 0);
    const auto seen = path.subspan(static_cast<size_t>(first));
    if (std::ranges::any_of(seen, [&](const PrefixNode* n) { return n->pages[k] < 0; })) {
      return false;
    }
  }
  return true;
}

int32_t KnownPages::fetch(PrefixNode* node, size_t kind) {
  PagePool& pool = pools_[kind];
  if (node->pages[kind] >= 0) {
    pool.retain(node->pages[kind]);
    return node->pages[kind];
  }
  const int32_t page = pool.acquire();
  if (page < 0) return -1;
  if (!read_stored(node, kind, page)) {
    pool.release(page);
    return -1;
  }
  node->pages[kind] = page;
  pool.set_node(page, node);
  return page;
}

bool KnownPages::read_stored(const PrefixNode* node, size_t kind, int32_t page) {
  if (node->stored[kind] < 0) return false;  // making room may have cost the node its slot
  try {
    return stores_[kind]->get(node->stored[kind]) &&
           pools_[kind].write(stores_[kind]->buffer(), page).ok();
  } catch (const std::bad_alloc&) {
    return false;  // no memory for the error message, which is not needed
  }
}

/// A kept page leaves memory: for the file if there is one. What cannot be written is lost.
void KnownPages::evicted(PrefixNode* node, size_t kind, int32_t page) {
  node->pages[kind] = -1;
  use(node);  // whatever else goes, this node stays till it is done with
  PageStore* const store = stores_[kind].get();
  try {
    if (store != nullptr && node->stored[kind] < 0 &&
        pools_[kind].read(page, store->buffer()).ok()) {
      if (PrefixNode* oldest = store->oldest(); oldest != nullptr) {
        store->drop(oldest->stored[kind]);
        oldest->stored[kind] = -1;
        tree_.prune(oldest);
      }
      node->stored[kind] = store->put(node);
    }
  } catch (const std::bad_alloc&) {
    // Of the device's message: the page is lost as if it had been told.
  }
  leave(node);
}

PrefixNode* KnownPages::use(PrefixNode* parent, const PageKeys& keys, int64_t page) {
  if (parent == nullptr) parent = tree_.root_for(keys.adapters());
  PrefixNode* const node = tree_.find_or_add(parent, keys.page(page));
  use(node);
  return node;
}

void KnownPages::leave(PrefixNode* node) {
  --node->users;
  tree_.prune(node);
}

int32_t KnownPages::learn(PrefixNode* node, size_t kind, int32_t page) {
  PagePool& pool = pools_[kind];
  int32_t& known = node->pages[kind];
  if (known < 0 && pool.node(page) == nullptr) {
    known = page;
    pool.set_node(page, node);
  } else if (known >= 0 && known != page) {
    pool.retain(known);
    pool.release(page);
    return known;
  }
  return page;
}

void KnownPages::forget(size_t kind, int32_t page) {
  PrefixNode* const node = pools_[kind].node(page);
  pools_[kind].set_node(page, nullptr);
  node->pages[kind] = -1;
  tree_.prune(node);
}

void KnownPages::drop(PrefixNode* node, size_t kind) {
  const int32_t page = node->pages[kind];
  if (page < 0 || node->lasting || pools_[kind].references(page) > 0) return;
  pools_[kind].drop(page);
  node->pages[kind] = -1;
  tree_.prune(node);
}

void KnownPages::renumbered(size_t kind) {
  const PagePool& pool = pools_[kind];
  for (int32_t page = 0; page < pool.id_end(); ++page) {
    if (PrefixNode* const node = pool.node(page); node != nullptr) node->pages[kind] = page;
  }
}

}  // namespace infer
