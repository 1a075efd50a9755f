// A set of byte strings with values, searched by prefix.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace infer {

/// Immutable once built; safe from several threads.
class ByteTrie {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kRoot = 0;

  ByteTrie() { roots_.fill(kNone); }
  /// Of equal keys the first counts; empty ones are left out. The keys need not outlive the call.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> entries);

  /// The node one byte further, or kNone.
  uint32_t step(uint32_t node, uint8_t byte) const;
  /// The value that ends at the node, or −1.
  int32_t value(uint32_t node) const { return nodes_[node].value; }
  /// Whether any key begins with this byte.
  bool starts_with(uint8_t byte) const { return roots_[byte] != kNone; }

  struct Match {
    int32_t value = -1;  ///< −1: no match
    size_t size = 0;     ///< bytes
  };
  /// The longest key that is a prefix of `text`.
  Match longest_prefix(std::string_view text) const;

 private:
  struct Node {
    uint32_t first_child = 0;  ///< children are adjacent and sorted by label
    uint16_t children = 0;
    uint8_t label = 0;
    int32_t value = -1;
  };
  std::vector<Node> nodes_;
  std::array<uint32_t, 256> roots_;
};

}  // namespace infer
