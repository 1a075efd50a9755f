// What the host knows of attention by tiles of queries (device/attend_tile.h).
#pragma once

#include <cstdint>

namespace infer::cuda {

inline constexpr uint32_t kTileThreads = 128;
/// Queries of a tile; a warp has 16.
inline constexpr uint32_t kTileQueries = 64;

/// The shared memory of a tile's block, in words: keys and values of so many tokens as float16, and
/// the queries that registers have no room for. Rows are 16 bytes longer than their elements, so
/// that eight of them begin in different banks.
template <uint32_t kKey, uint32_t kValue>
struct AttentionTile {
  static constexpr uint32_t kTokens = kKey > 192 || kValue > 128 ? 32 : 64;
  static constexpr bool kQueriesInRegisters = kKey <= 128;
  static constexpr uint32_t kKeyRow = kKey / 2 + 4;        ///< a token's
  static constexpr uint32_t kAcrossRow = kTokens / 2 + 4;  ///< an element's, of transposed keys
  static constexpr uint32_t kValueRow = kValue / 2 + 4;
  static constexpr uint32_t kPlainWords = kTokens * kKeyRow;
  static constexpr uint32_t kAcrossWords = kKey * kAcrossRow;
  static constexpr uint32_t kKeyWords = kPlainWords > kAcrossWords ? kPlainWords : kAcrossWords;
  static constexpr uint32_t kValueWords = kTokens * kValueRow;
  static constexpr uint32_t kQueryWords = kQueriesInRegisters ? 0 : kTileThreads * kKey / 4;
  static constexpr uint32_t kBytes = 4 * (kKeyWords + kValueWords + kQueryWords);
};

}  // namespace infer::cuda
