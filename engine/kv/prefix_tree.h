// Which pages hold which tokens. Each node of the tree stands for the tokens of one page. A path
// from the root is a sequence of tokens. A page computed once thus serves every sequence that
// starts with the same tokens.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/graph/kv_geometry.h"

namespace infer {

using PageTokens = std::span<const int32_t, kPageTokens>;

/// Identifies the pages of a sequence by its tokens. With `generated`, a generated token differs
/// from the same token given in a prompt, since devices with two numeric classes compute them
/// differently. Pages of texts with other factors of adapters are other pages. Does not own the
/// vectors.
class PageKeys {
 public:
  PageKeys(std::span<const int32_t> tokens) : tokens_(tokens) {}
  PageKeys(const std::vector<int32_t>& tokens) : tokens_(tokens) {}
  /// `generated`: by token. Tokens beyond its end were given.
  PageKeys(std::span<const int32_t> tokens, const std::vector<bool>& generated)
      : tokens_(tokens), generated_(&generated) {}

  /// By adapter of the model: its factor. Empty: all are 0.
  void set_adapters(std::span<const float> factors) { adapters_ = factors; }
  std::span<const float> adapters() const { return adapters_; }

  int64_t tokens() const { return static_cast<int64_t>(tokens_.size()); }
  /// Of the last page, what lies beyond the tokens is 0.
  std::array<int32_t, kPageTokens> page(int64_t page) const;

 private:
  std::span<const int32_t> tokens_;
  const std::vector<bool>* generated_ = nullptr;
  std::span<const float> adapters_;
};

struct PrefixNode {
  PrefixNode* parent = nullptr;
  uint64_t hash = 0;  ///< of all tokens from the root to here
  std::array<int32_t, kPageTokens> tokens{};
  std::vector<int32_t> pages;                     ///< by kind: page in memory, or −1
  std::vector<int32_t> stored;                    ///< by kind: slot of the PageStore, or −1
  PrefixNode* newest = nullptr;                   ///< child that was added last; null: no children
  PrefixNode *older = nullptr, *newer = nullptr;  ///< in the list of the parent's children
  int32_t users = 0;                              ///< sequences that start with these tokens
  bool lasting = false;  ///< its page of states is not dropped for a later one of the sequence
};

/// Finds nodes by hash, then compares the tokens themselves, so equal hashes never mix up two
/// texts. Not thread-safe.
class PrefixTree {
 public:
  explicit PrefixTree(size_t kinds);
  /// Where texts with these factors of adapters begin; null if there are none.
  const PrefixNode* root(std::span<const float> adapters) const;
  /// The same, made if there is none. It stays while it has children. May throw std::bad_alloc; the
  /// tree is then unchanged.
  PrefixNode* root_for(std::span<const float> adapters);
  /// The child with these tokens, or null.
  PrefixNode* find(const PrefixNode* parent, PageTokens tokens) const;
  /// The child with these tokens. If there is none, adds one without pages. May throw
  /// std::bad_alloc; the tree is then unchanged.
  PrefixNode* find_or_add(PrefixNode* parent, PageTokens tokens);
  /// Removes the node if it has no page (in memory or stored), no children and no users. Then does
  /// the same with its parent, and so on. A root without children goes, too.
  void prune(PrefixNode* node);

 private:
  size_t kinds_;
  std::map<std::vector<float>, PrefixNode> roots_;  ///< by factors of adapters
  std::unordered_multimap<uint64_t, std::unique_ptr<PrefixNode>> nodes_;
};

}  // namespace infer
