// Attention of the rows of prompts to the pages of the cache.
#include "backends/cuda/device/attend_tile.h"
#include "backends/cuda/device/merge.h"
#include "backends/cuda/ops/attention.h"

namespace infer::cuda {

/// Starts the copy of rows of blocks as they are, one after another.
INFER_DEVICE void copy_blocks(const SharedPtr<uint32_t>& to, uint64_t from, uint32_t bytes) {
  for (uint32_t i = thread(); i < bytes / 16; i += kTileThreads) {
    async_copy_16(to, 4 * i, Global<const uint32_t>(from), 4 * i);
  }
}

/// Two levels times a scale. The levels are float16; so is the product, rounded once.
INFER_DEVICE uint32_t scaled_levels(uint32_t levels, uint32_t scale) {
  const float s = half_of(scale);
  if (magnitude_of(s) <= kMostHalf / 128) return multiply_halves(levels, scale | scale << 16);
  return packed_halves(limited(half_of(levels & 0xffffu) * s), limited(half_of(levels >> 16) * s));
}

/// Blocks of Q8_0 (`wide`) or Q4_0, which all threads see, become float16 in their place; rows from
/// `end` on become zeros. The caller's barrier follows.
template <uint32_t kRows, uint32_t kElements, uint32_t kStride>
INFER_DEVICE void blocks_to_halves(const SharedPtr<uint32_t>& at, bool wide, uint32_t end) {
  constexpr uint32_t kOwn = (kRows * kElements / 8 + kTileThreads - 1) / kTileThreads;
  const uint32_t block_bytes = wide ? 34 : 18;
  uint32_t words[kOwn][2];  // levels
  uint32_t scales[kOwn];
  uint32_t n = 0;
  for_own_pieces<kRows, kElements>([&](uint32_t row, uint32_t piece) {
    const uint32_t block = (row * (kElements / 32) + piece / 4) * block_bytes;
    scales[n] = (at[block / 4] >> (block % 4 * 8)) & 0xffffu;
    const uint32_t first = block + 2 + piece % (wide ? 4 : 2) * 8;
    // Blocks begin at even bytes.
    const bool odd = first % 4 != 0;
    const uint32_t w = first / 4;
    const uint32_t middle = at[w + 1];
    words[n][0] = permute(at[w], middle, odd ? 0x5432u : 0x3210u);
    words[n][1] = odd ? permute(middle, at[w + 2], 0x5432u) : middle;
    if (!wide && piece % 4 >= 2) {
      words[n][0] >>= 4;
      words[n][1] >>= 4;
    }
    ++n;
  });
  sync_block();
  n = 0;
  for_own_pieces<kRows, kElements>([&](uint32_t row, uint32_t piece) {
    // A byte b below the upper byte of 1024 is the float16 of 1024 + b.
    constexpr uint32_t k1024 = 0x64646464u;
    const auto pair = [&](uint32_t word, uint32_t select) {
      const uint32_t levels =
          wide ? add_halves(permute(word ^ 0x80808080u, k1024, select), 0xe480e480u)   // − 1152
               : add_halves(permute(word, k1024, select) & 0xff0fff0fu, 0xe408e408u);  // − 1032
      return row < end ? scaled_levels(levels, scales[n]) : 0u;
    };
    store_shared<uint4>(at, row * kStride + piece * 4,
                        uint4{pair(words[n][0], 0x4140u), pair(words[n][0], 0x4342u),
                              pair(words[n][1], 0x4140u), pair(words[n][1], 0x4342u)});
    ++n;
  });
}

INFER_DEVICE bool has_blocks(uint32_t type) { return cache_block(type) > 1; }

INFER_DEVICE Run run_in_cache(const AttentionParams& p, uint32_t begin, uint32_t end) {
  const Global<const int32_t> sequences(p.sequences);
  const Global<const int32_t> slots(p.slots);
  const Global<const int32_t> last_seen(p.last_seen);
  Run run{begin, 0, static_cast<uint32_t>(sequences[begin]), 0xffffffffu, 0, 0xffffffffu, 0};
  bool goes_on = true;
  // Tiles have up to 64 rows.
#pragma unroll
  for (uint32_t part = 0; part < 2; ++part) {
    const uint32_t row = begin + part * 32 + lane();
    const bool same = goes_on && row < end && static_cast<uint32_t>(sequences[row]) == run.sequence;
    const uint32_t others = ~ballot(same);
    const uint32_t count = others == 0 ? 32 : bits_set((others & (0u - others)) - 1);
    if (lane() < count) {
      const auto slot = static_cast<uint32_t>(last_seen[row]);
      const uint32_t first = first_seen(static_cast<uint32_t>(slots[row]), p.window, p.chunked);
      run.least_first = first < run.least_first ? first : run.least_first;
      run.most_first = first > run.most_first ? first : run.most_first;
      run.least_slot = slot < run.least_slot ? slot : run.least_slot;
      run.most_slot = slot > run.most_slot ? slot : run.most_slot;
    }
    run.count += count;
    goes_on = count == 32;
  }
  const auto least = [](uint32_t x) {
    for (uint32_t other = 16; other > 0; other /= 2) {
      const uint32_t y = shuffle_xor(x, other);
      x = y < x ? y : x;
    }
    return x;
  };
  run.least_first = least(run.least_first);
  run.least_slot = least(run.least_slot);
  run.most_first = ~least(~run.most_first);
  run.most_slot = ~least(~run.most_slot);
  return run;
}

/// The pages of the cache, of any type of 16 bits or with blocks.
template <uint32_t kKey, uint32_t kValue, bool kBiased>
struct CacheSource {
  using Tile = AttentionTile<kKey, kValue>;
  static constexpr bool kBiases = kBiased;
  const AttentionParams& p;
  Pages table;

  INFER_DEVICE TileRows rows() const {
    return {step_rows(p.step, gpu::kGeneratedRows), step_rows(p.step, p.rows)};
  }
  INFER_DEVICE Seen seen(uint32_t row) const {
    const auto slot = static_cast<uint32_t>(Global<const int32_t>(p.slots)[row]);
    return {first_seen(slot, p.window, p.chunked),
            static_cast<uint32_t>(Global<const int32_t>(p.last_seen)[row])};
  }
  INFER_DEVICE uint32_t position(uint32_t row) const {
    return static_cast<uint32_t>(Global<const int32_t>(p.slots)[row]);
  }
  INFER_DEVICE float slope(uint32_t head) const { return Global<const float>(p.slopes)[head]; }
  INFER_DEVICE Run run_of(uint32_t begin, uint32_t end) const {
    return run_in_cache(p, begin, end);
  }
  INFER_DEVICE float query(uint32_t at, uint32_t i) const {
    return Global<const float>(p.q)[at + i];
  }
  INFER_DEVICE uint64_t page(uint32_t sequence, uint32_t token) const {
    return table.of(sequence, token);
  }
  INFER_DEVICE bool across() const { return p.across != 0; }
  INFER_DEVICE uint32_t value_elements() const { return kValue; }

  INFER_DEVICE void copy_keys(const SharedPtr<uint32_t>& to, uint32_t head, uint64_t page,
                              uint32_t token, uint32_t) const {
    const uint64_t keys = page + p.k_offset + uint64_t{head} * kPageTokens * p.k_row;
    const uint32_t first = token % kPageTokens;
    if (p.across != 0) {
      copy_matrix<kKey, Tile::kTokens, Tile::kAcrossRow>(to, keys + first * 2, kPageTokens * 2,
                                                         kKey);
    } else if (has_blocks(p.k_type)) {
      copy_blocks(to, keys + first * p.k_row, Tile::kTokens * p.k_row);
    } else {
      copy_matrix<Tile::kTokens, kKey, Tile::kKeyRow>(to, keys + first * p.k_row, p.k_row,
                                                      Tile::kTokens);
    }
  }
  INFER_DEVICE void take_keys(const SharedPtr<uint32_t>& at) const {
    if (p.k_type == kCacheBf16) {
      if (p.across != 0) {
        brains_to_halves<kKey, Tile::kTokens, Tile::kAcrossRow>(at);
      } else {
        brains_to_halves<Tile::kTokens, kKey, Tile::kKeyRow>(at);
      }
    }
    sync_block();
    if constexpr (kKey % 32 == 0) {
      if (has_blocks(p.k_type)) {
        blocks_to_halves<Tile::kTokens, kKey, Tile::kKeyRow>(at, p.k_type == kCacheQ8_0,
                                                             Tile::kTokens);
        sync_block();
      }
    }
  }
  /// What is behind `end` nobody need have written.
  INFER_DEVICE void copy_values(const SharedPtr<uint32_t>& to, uint32_t head, uint64_t page,
                                uint32_t token, uint32_t end) const {
    const uint64_t values =
        page + p.v_offset + uint64_t{head} * kPageTokens * p.v_row + token % kPageTokens * p.v_row;
    if (has_blocks(p.v_type)) {
      copy_blocks(to, values, Tile::kTokens * p.v_row);
    } else {
      copy_matrix<Tile::kTokens, kValue, Tile::kValueRow>(to, values, p.v_row, end);
    }
  }
  INFER_DEVICE void take_values(const SharedPtr<uint32_t>& at, uint32_t end) const {
    if (p.v_type == kCacheBf16) {
      for_own_words<Tile::kTokens, kValue, Tile::kValueRow>(at, [](uint32_t word) {
        return limited_halves(float_of(word << 16), float_of(word & 0xffff0000u), kMostHalf);
      });
    } else if (p.v_type == kCacheF16) {
      for_own_words<Tile::kTokens, kValue, Tile::kValueRow>(
          at, [](uint32_t word) { return limited_pair(word, kMostHalf); });
    }
    sync_block();
    if constexpr (kValue % 32 == 0) {
      if (has_blocks(p.v_type)) {
        blocks_to_halves<Tile::kTokens, kValue, Tile::kValueRow>(at, p.v_type == kCacheQ8_0, end);
        sync_block();
      }
    }
  }
};

#define INFER_ATTENTION_TILE(key, value, blocks)                                          \
  INFER_KERNEL(attention_tile_##key##_##value, AttentionParams, kTileThreads, blocks) {   \
    attend_tile<key, value>(CacheSource<key, value, false>{p, pages_of(p.step, p.kind)}); \
  }
INFER_ATTENTION_TILES(INFER_ATTENTION_TILE)

#define INFER_BIASED_TILE(key, value, blocks)                                                  \
  INFER_KERNEL(attention_tile_biased_##key##_##value, AttentionParams, kTileThreads, blocks) { \
    attend_tile<key, value>(CacheSource<key, value, true>{p, pages_of(p.step, p.kind)});       \
  }
INFER_BIASED_TILES(INFER_BIASED_TILE)

}  // namespace infer::cuda
