// SentencePiece's precompiled normalisation: a map from byte sequences to what replaces them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/status.h"

namespace infer {

/// A double-array trie (Yata et al.; Darts-clone's packing of units) over prefixes, each leading to
/// a zero-terminated replacement. Safe whatever the bytes: what lies outside counts as no match.
class Charsmap {
 public:
  /// Maps nothing.
  Charsmap() = default;
  /// `blob`: the trie's size in bytes (u32, little-endian), its units (u32), the replacements.
  /// bad_file if these contradict each other.
  static Result<Charsmap> parse(std::span<const uint8_t> blob, const std::string& source);

  struct Mapping {
    std::string_view replacement;
    size_t size = 0;  ///< bytes of the text that it replaces; 0: none
  };
  /// The mapping of the longest prefix of `text` that has one.
  Mapping find(std::string_view text) const { return find(text, false); }
  /// That of the shortest.
  Mapping find_shortest(std::string_view text) const { return find(text, true); }

 private:
  Mapping find(std::string_view text, bool shortest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace infer
