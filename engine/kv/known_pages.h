// The prefix cache: finds the pages that hold given tokens, in memory or in a file, so that pages
// computed for one sequence serve others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/kv/page_pool.h"
#include "engine/kv/page_store.h"
#include "engine/kv/prefix_tree.h"

namespace infer {

/// The first page that a token at slot `length` - `margin` sees. Later tokens see no earlier page.
int64_t first_seen_page(const KvKind& kind, int64_t length, int64_t margin);

/// Not thread-safe.
class KnownPages {
 public:
  /// The pools, by kind, outlive it. They report every page that they evict.
  KnownPages(const std::vector<KvKind>& kinds, std::vector<PagePool>& pools);
  KnownPages(const KnownPages&) = delete;
  KnownPages& operator=(const KnownPages&) = delete;

  /// From now on writes evicted pages to files in this folder, up to `bytes` bytes in all. Errors:
  /// io.
  Status open_stores(const std::string& folder, int64_t bytes);

  /// The longest known prefix of the tokens, at most `limit` pages: its nodes in order. Every page
  /// that the token after the prefix sees exists, in memory or in a file.
  std::vector<PrefixNode*> find(const PageKeys& keys, int64_t limit) const;
  /// A page that begins with some of the tokens looked for: how many, and its node.
  struct Part {
    PrefixNode* node = nullptr;
    int64_t tokens = 0;
  };
  /// The page after the path that has the most of the next `limit` tokens at its beginning. Only
  /// pages in memory count, and of very many only the newest.
  Part find_part(std::span<PrefixNode* const> path, const PageKeys& keys, int64_t limit) const;
  /// Pages of the longest beginning of the tokens that is remembered, at most `limit`, whether the
  /// pages exist or not.
  int64_t common(const PageKeys& keys, int64_t limit) const;
  /// Whether all pages that the token after a found prefix sees are in memory.
  bool in_memory(std::span<PrefixNode* const> path) const;
  bool has(const PrefixNode* node, size_t kind) const {
    return node->pages[kind] >= 0 || node->stored[kind] >= 0;
  }
  /// Returns the node's page with one more reference, after reading it from the file if necessary.
  /// −1 if there is no page in memory for it.
  int32_t fetch(PrefixNode* node, size_t kind);

  /// Adds a user to the child of a node (null: of the root) with the tokens of this page, and
  /// returns the child. Adds the child if there is none. May throw std::bad_alloc; no page has
  /// changed then.
  PrefixNode* use(PrefixNode* parent, const PageKeys& keys, int64_t page);
  void use(PrefixNode* node) { ++node->users; }
  /// Removes a user. A node without users, pages and children is deleted.
  void leave(PrefixNode* node);
  /// Registers a held page that has the node's contents, and returns it. If the node has such a
  /// page already, releases `page` and returns the other one, held.
  int32_t learn(PrefixNode* node, size_t kind, int32_t page);
  /// Unregisters a held page, because it is about to be written.
  void forget(size_t kind, int32_t page);
  /// Frees the node's page in memory, if nobody holds it and the node is not a lasting checkpoint.
  void drop(PrefixNode* node, size_t kind);
  /// The pool of this kind has changed the ids of its pages (PagePool::widen).
  void renumbered(size_t kind);

 private:
  void evicted(PrefixNode* node, size_t kind, int32_t page);
  bool read_stored(const PrefixNode* node, size_t kind, int32_t page);

  const std::vector<KvKind>& kinds_;
  std::vector<PagePool>& pools_;
  std::vector<std::unique_ptr<PageStore>> stores_;  ///< by kind; null without a folder
  PrefixTree tree_;
};

}  // namespace infer
