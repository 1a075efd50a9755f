// What is known of pages: which of them hold which tokens, in memory and in files, so that what one
// sequence computed serves others.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/kv/block_pool.h"
#include "engine/kv/page_store.h"
#include "engine/kv/prefix_tree.h"

namespace infer {

/// The first page that a token at slot `length`, or one up to `margin` slots earlier, sees.
int64_t first_seen_page(const KvKind& kind, int64_t length, int64_t margin);

/// One thread.
class KnownPages {
 public:
  /// The pools, by kind, outlive it. They tell it what they evict.
  KnownPages(const std::vector<KvKind>& kinds, std::vector<BlockPool>& pools);
  KnownPages(const KnownPages&) = delete;
  KnownPages& operator=(const KnownPages&) = delete;

  /// Pages that have to leave memory go into files in this folder, up to so many bytes. io if none
  /// can be made there.
  Status open_stores(const std::string& folder, int64_t bytes);

  /// The nodes of the longest beginning of the tokens, at most `limit` pages, of which all pages
  /// that the next token sees are there, in memory or outside.
  std::vector<PrefixNode*> find(const PageKeys& keys, int64_t limit) const;
  bool has(const PrefixNode* node, size_t kind) const {
    return node->pages[kind] >= 0 || node->stored[kind] >= 0;
  }
  /// The node's page in memory, with one reference more; −1 if it cannot be brought there.
  int32_t fetch(PrefixNode* node, size_t kind);

  /// The child of a node (null: of the root) with these tokens, used once more. May throw
  /// std::bad_alloc, changing nothing.
  PrefixNode* use(PrefixNode* parent, PageTokens tokens);
  void use(PrefixNode* node) { ++node->users; }
  /// The opposite.
  void leave(PrefixNode* node);
  /// A held page has the node's contents: makes it known, or gives it back and returns the one that
  /// is known already, held instead.
  int32_t learn(PrefixNode* node, size_t kind, int32_t page);
  /// A held page that is known is to be written.
  void forget(size_t kind, int32_t page);
  /// Pages of a pool have other ids.
  void renumbered(size_t kind);

 private:
  void evicted(PrefixNode* node, size_t kind, int32_t page);
  bool read_stored(const PrefixNode* node, size_t kind, int32_t page);

  const std::vector<KvKind>& kinds_;
  std::vector<BlockPool>& pools_;
  std::vector<std::unique_ptr<PageStore>> stores_;  ///< by kind; null without a folder
  PrefixTree tree_;
};

}  // namespace infer
