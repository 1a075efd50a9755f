// N-gram embeddings (Cheng et al. 2026, "Engram"): a token has rows of a large table, which are
// found by hashes of itself and the tokens before it. The host finds and reads them: the table
// stays in its file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace infer {

/// The longest n-gram, in tokens.
inline constexpr int64_t kMostNgram = 8;

struct NgramSpec {
  int32_t table = -1;  ///< index of a weight [width, rows] of any type
  int64_t width = 0;   ///< elements of a row
  /// By distance of a token, from 0 on: what its id is multiplied with. As many as the longest
  /// n-gram has tokens.
  std::vector<uint64_t> multipliers;
  /// A hash: its rows of the table are [offset, offset + size).
  struct Head {
    uint64_t offset = 0;
    uint64_t size = 1;
  };
  std::vector<Head> heads;  ///< those of pairs of tokens, then those of triples, …; equally many
  int32_t end = 0;          ///< the token that ends a text: it hides what is before it
  int32_t image = 0;        ///< the token that stands for a piece of an image

  int64_t tokens() const { return static_cast<int64_t>(multipliers.size()); }
  /// Elements of all rows of a token.
  int64_t elements() const { return width * static_cast<int64_t>(heads.size()); }
};

/// The row of each head. `tokens`: ids, that of the token itself and then those before it,
/// backwards; as many as there are, at most spec.tokens(). Ids below 0 are of images.
void find_ngram_rows(const NgramSpec& spec, std::span<const int32_t> tokens,
                     std::span<uint64_t> rows);

}  // namespace infer
