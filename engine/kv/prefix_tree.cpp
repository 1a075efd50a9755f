#include "engine/kv/prefix_tree.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

namespace infer {
namespace {

uint64_t hash_of(const PrefixNode* parent, PageTokens tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent->hash);
}

}  // namespace

PrefixTree::PrefixTree(size_t kinds) : kinds_(kinds) {}

const PrefixNode* PrefixTree::root(std::span<const float> adapters) const {
  const auto it = std::ranges::find_if(
      roots_, [&](const auto& e) { return std::ranges::equal(e.first, adapters); });
  return it == roots_.end() ? nullptr : &it->second;
}

PrefixNode* PrefixTree::root_for(std::span<const float> adapters) {
  PrefixNode& root = roots_[std::vector(adapters.begin(), adapters.end())];
  root.hash = XXH3_64bits(adapters.data(), adapters.size_bytes());
  return &root;
}

PrefixNode* PrefixTree::find(const PrefixNode* parent, PageTokens tokens) const {
  const auto [begin, end] = nodes_.equal_range(hash_of(parent, tokens));
  for (auto it = begin; it != end; ++it) {
    const PrefixNode& node = *it->second;
    if (node.parent == parent && std::ranges::equal(node.tokens, tokens)) return it->second.get();
  }
  return nullptr;
}

PrefixNode* PrefixTree::find_or_add(PrefixNode* parent, PageTokens tokens) {
  if (PrefixNode* found = find(parent, tokens); found != nullptr) return found;
  auto node = std::make_unique<PrefixNode>();
  node->parent = parent;
  node->hash = hash_of(parent, tokens);
  std::ranges::copy(tokens, node->tokens.begin());
  node->pages.assign(kinds_, -1);
  node->stored.assign(kinds_, -1);
  PrefixNode* const added = node.get();
  nodes_.emplace(added->hash, std::move(node));
  added->older = parent->newest;
  if (added->older != nullptr) added->older->newer = added;
  parent->newest = added;
  return added;
}

void PrefixTree::prune(PrefixNode* node) {
  while (node->parent != nullptr && node->newest == nullptr && node->users == 0 &&
         std::ranges::all_of(node->pages, [](int32_t page) { return page < 0; }) &&
         std::ranges::all_of(node->stored, [](int32_t slot) { return slot < 0; })) {
    PrefixNode* const parent = node->parent;
    if (node->older != nullptr) node->older->newer = node->newer;
    (node->newer != nullptr ? node->newer->older : parent->newest) = node->older;
    const auto [begin, end] = nodes_.equal_range(node->hash);
    nodes_.erase(std::find_if(begin, end, [&](const auto& e) { return e.second.get() == node; }));
    node = parent;
  }
  if (node->parent != nullptr || node->newest != nullptr) return;
  std::erase_if(roots_, [&](const auto& e) { return &e.second == node; });
}

std::array<int32_t, kPageTokens> PageKeys::page(int64_t page) const {
  std::array<int32_t, kPageTokens> keys{};
  const auto first = static_cast<size_t>(page * kPageTokens);
  std::ranges::copy(tokens_.subspan(first, std::min(keys.size(), tokens_.size() - first)),
                    keys.begin());
  if (generated_ == nullptr) return keys;
  for (size_t t = first; t < std::min(first + keys.size(), generated_->size()); ++t) {
    if ((*generated_)[t]) keys[t - first] = ~keys[t - first];
  }
  return keys;
}

}  // namespace infer
