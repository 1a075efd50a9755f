#include "engine/text/byte_trie.h"

#include <algorithm>

namespace infer {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries) {
  roots_.fill(kNone);
  std::erase_if(entries, [](const auto& entry) { return entry.first.empty(); });
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });

  // Breadth first, so that the children of a node are adjacent: each node covers a range of the
  // sorted entries that share its prefix.
  struct Span {
    size_t begin, end, depth;
  };
  std::vector<Span> spans{{0, entries.size(), 0}};
  nodes_.emplace_back();
  for (size_t i = 0; i < spans.size(); ++i) {
    auto [begin, end, depth] = spans[i];
    nodes_[i].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const auto label = static_cast<uint8_t>(entries[begin].first[depth]);
      size_t next = begin + 1;
      while (next < end && static_cast<uint8_t>(entries[next].first[depth]) == label) ++next;
      Node node;
      node.label = label;
      // Keys that end here sort first among those that share the prefix.
      size_t inner = begin;
      if (entries[inner].first.size() == depth + 1) node.value = entries[inner].second;
      while (inner < next && entries[inner].first.size() == depth + 1) ++inner;
      nodes_.push_back(node);
      spans.push_back({inner, next, depth + 1});
      ++nodes_[i].children;
      begin = next;
    }
  }
  for (uint32_t c = 0; c < nodes_[kRoot].children; ++c) {
    const uint32_t child = nodes_[kRoot].first_child + c;
    roots_[nodes_[child].label] = child;
  }
}

uint32_t ByteTrie::step(uint32_t node, uint8_t byte) const {
  if (node == kRoot) return roots_[byte];
  const Node& parent = nodes_[node];
  uint32_t low = parent.first_child;
  uint32_t high = low + parent.children;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    if (nodes_[middle].label < byte) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  const bool found = low < parent.first_child + parent.children && nodes_[low].label == byte;
  return found ? low : kNone;
}

ByteTrie::Match ByteTrie::longest_prefix(std::string_view text) const {
  Match match;
  uint32_t node = kRoot;
  for (size_t i = 0; i < text.size(); ++i) {
    node = step(node, static_cast<uint8_t>(text[i]));
    if (node == kNone) break;
    if (nodes_[node].value >= 0) match = {nodes_[node].value, i + 1};
  }
  return match;
}

}  // namespace infer
