// Which pages hold which tokens: a tree whose paths from the root are token sequences, a page of
// them to a node. So that a page computed once serves every sequence that begins with the same
// tokens.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/graph/kv_geometry.h"

namespace infer {

using PageTokens = std::span<const int32_t, kPageTokens>;

/// A sequence's tokens as its pages are known by. Where results depend on roles, a token that was
/// generated counts as another than the same one that was given. Both outlive it.
class PageKeys {
 public:
  PageKeys(std::span<const int32_t> tokens) : tokens_(tokens) {}
  PageKeys(const std::vector<int32_t>& tokens) : tokens_(tokens) {}
  /// `generated`: by token; those beyond its end were given.
  PageKeys(std::span<const int32_t> tokens, const std::vector<bool>& generated)
      : tokens_(tokens), generated_(&generated) {}

  int64_t tokens() const { return static_cast<int64_t>(tokens_.size()); }
  std::array<int32_t, kPageTokens> page(int64_t page) const;

 private:
  std::span<const int32_t> tokens_;
  const std::vector<bool>* generated_ = nullptr;
};

struct PrefixNode {
  PrefixNode* parent = nullptr;
  uint64_t hash = 0;  ///< of all tokens from the root to here
  std::array<int32_t, kPageTokens> tokens{};
  std::vector<int32_t> pages;   ///< by kind; −1 where there is none
  std::vector<int32_t> stored;  ///< by kind, slots of pages outside of memory; −1 likewise
  int32_t children = 0;
  int32_t users = 0;  ///< sequences that begin with these tokens
};

/// Tokens are compared, hashes only find them: equal paths are equal texts. One thread.
class PrefixTree {
 public:
  explicit PrefixTree(size_t kinds);
  PrefixNode* root() { return &root_; }
  const PrefixNode* root() const { return &root_; }
  /// The child with these tokens, or null.
  PrefixNode* find(const PrefixNode* parent, PageTokens tokens) const;
  /// The same; made without pages if there is none. May throw std::bad_alloc, changing nothing.
  PrefixNode* find_or_add(PrefixNode* parent, PageTokens tokens);
  /// Removes the node, and those above it, while they have neither pages, stored or not, children
  /// nor users.
  void prune(PrefixNode* node);

 private:
  size_t kinds_;
  PrefixNode root_;
  std::unordered_multimap<uint64_t, std::unique_ptr<PrefixNode>> nodes_;
};

}  // namespace infer
