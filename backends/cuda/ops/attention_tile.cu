// Attention of the rows of prompts on tensor cores. A block has 64 queries of one head of keys:
// neighbouring rows, and in them the heads that share the keys. A warp has 16 of them, for which it
// computes products with float16 keys and values and sums of float32 (Dao 2023,
// "FlashAttention-2").
//
// Keys and values are visited in pieces of 32 or 64 tokens that begin at multiples of it, whatever
// the tile begins with. Of a piece a query takes in what it sees; what it does not see adds exactly
// nothing. So its bits depend on no other query of its tile.
//
// While the scores of a piece are computed its values are on their way; while its values are mixed,
// the next keys are.
#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/merge.h"
#include "backends/cuda/device/mma.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/ops/attention.h"

namespace infer::cuda {

constexpr float kLog2E = 1.44269504088896341f;
constexpr float kMostHalf = 65504.0f;

/// What is finite stays finite as float16.
INFER_DEVICE float limited(float x) {
  return magnitude_of(x) < infinity() ? least_of(most_of(x, -kMostHalf), kMostHalf) : x;
}

/// Calls use(row, piece) for the pieces of 8 elements that the thread has of a matrix.
template <uint32_t kRows, uint32_t kElements, typename Use>
INFER_DEVICE void for_own_pieces(const Use& use) {
  constexpr uint32_t kPieces = kElements / 8;
  constexpr uint32_t kAll = kRows * kPieces;
#pragma unroll
  for (uint32_t n = 0; n < (kAll + kTileThreads - 1) / kTileThreads; ++n) {
    const uint32_t i = n * kTileThreads + thread();
    if (kAll % kTileThreads != 0 && i >= kAll) break;
    use(i / kPieces, i % kPieces);
  }
}

/// Starts the copy of a matrix of 16 bits an element; rows from `end` on are zeros. kStride: words.
template <uint32_t kRows, uint32_t kElements, uint32_t kStride>
INFER_DEVICE void copy_matrix(const SharedPtr<uint32_t>& to, uint64_t from, uint32_t row_bytes,
                              uint32_t end) {
  for_own_pieces<kRows, kElements>([&](uint32_t row, uint32_t piece) {
    const uint32_t at = row * kStride + piece * 4;
    if (row < end) {
      async_copy_16(to, at, Global<const uint32_t>(from + row * row_bytes + piece * 16), 0);
    } else {
      store_shared<uint4>(to, at, uint4{0, 0, 0, 0});
    }
  });
}

/// Bfloat16 that this thread has copied become float16.
template <uint32_t kRows, uint32_t kElements, uint32_t kStride>
INFER_DEVICE void brains_to_halves(const SharedPtr<uint32_t>& at) {
  for_own_pieces<kRows, kElements>([&](uint32_t row, uint32_t piece) {
    const auto both = [](uint32_t word) {
      return packed_halves(limited(float_of(word << 16)), limited(float_of(word & 0xffff0000u)));
    };
    const uint32_t i = row * kStride + piece * 4;
    const uint4 v = load_shared<uint4>(at, i);
    store_shared<uint4>(at, i, uint4{both(v.x), both(v.y), both(v.z), both(v.w)});
  });
}

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

/// The keys of a piece of tokens: [element][token] if they are transposed, else [token][element].
template <typename Tile, uint32_t kKey>
struct Keys {
  SharedPtr<uint32_t> at;

  /// `keys`: the head's of the page. `token`: the piece's first of the page.
  INFER_DEVICE void copy(const AttentionParams& p, uint64_t keys, uint32_t token) const {
    if (p.across != 0) {
      copy_matrix<kKey, Tile::kTokens, Tile::kAcrossRow>(at, keys + token * 2, kPageTokens * 2,
                                                         kKey);
    } else if (has_blocks(p.k_type)) {
      copy_blocks(at, keys + token * p.k_row, Tile::kTokens * p.k_row);
    } else {
      copy_matrix<Tile::kTokens, kKey, Tile::kKeyRow>(at, keys + token * p.k_row, p.k_row,
                                                      Tile::kTokens);
    }
  }
  /// After the wait of each thread for its copies. All threads see the keys then.
  INFER_DEVICE void take(const AttentionParams& p) const {
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
};

/// The values of a piece of tokens, [token][element]; from token `end` of the piece on zeros, since
/// nobody need have written them.
template <typename Tile, uint32_t kValue>
struct Values {
  SharedPtr<uint32_t> at;

  INFER_DEVICE void copy(const AttentionParams& p, uint64_t values, uint32_t token,
                         uint32_t end) const {
    if (has_blocks(p.v_type)) {
      copy_blocks(at, values + token * p.v_row, Tile::kTokens * p.v_row);
    } else {
      copy_matrix<Tile::kTokens, kValue, Tile::kValueRow>(at, values + token * p.v_row, p.v_row,
                                                          end);
    }
  }
  INFER_DEVICE void take(const AttentionParams& p, uint32_t end) const {
    if (p.v_type == kCacheBf16) brains_to_halves<Tile::kTokens, kValue, Tile::kValueRow>(at);
    sync_block();
    if constexpr (kValue % 32 == 0) {
      if (has_blocks(p.v_type)) {
        blocks_to_halves<Tile::kTokens, kValue, Tile::kValueRow>(at, p.v_type == kCacheQ8_0, end);
        sync_block();
      }
    }
  }
};

/// The two queries whose fragments a lane has parts of: g and g + 8 of its warp.
struct OwnQueries {
  uint32_t row[2], head[2], first[2], slot[2];
  bool given[2];  ///< false: there is none; it is computed as the last one and not stored
  /// Turns a product of the scaled query with a key into the score times log2 e; with a soft cap,
  /// into the score.
  float back[2];
};

/// Registers of A of 16 elements of the warp's queries. Each query is multiplied by a power of two,
/// so that its largest element is in [1, 2).
INFER_DEVICE void query_fragment(const AttentionParams& p, const OwnQueries& own,
                                 const float (&factor)[2], uint32_t part, uint32_t (&a)[4]) {
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t h = i % 2;
    const Global<const float> q(p.q);
    const uint32_t at =
        place(p.q_strides, own.head[h], own.row[h]) + part * 16 + i / 2 * 8 + lane() % 4 * 2;
    a[i] = packed_halves(q[at] * factor[h], q[at + 1] * factor[h]);
  }
}

/// Rows [begin, begin + count) of the step that are of one sequence, and what they see.
struct Run {
  uint32_t begin, count;
  uint32_t sequence;
  uint32_t least_first, most_first, least_slot, most_slot;
};
INFER_DEVICE Run run_of(const AttentionParams& p, uint32_t begin, uint32_t end) {
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

template <uint32_t kKey, uint32_t kValue>
INFER_DEVICE void attend_tile(const AttentionParams& p) {
  using Tile = AttentionTile<kKey, kValue>;
  constexpr uint32_t kParts = kKey / 16;
  constexpr uint32_t kTokens = Tile::kTokens;
  constexpr uint32_t kColumns = kTokens / 8;  // of scores, in eights
  const uint32_t before = step_rows(p.step, gpu::kGeneratedRows);
  const uint32_t all = (step_rows(p.step, p.rows) - before) * p.group;
  // Those that see the most begin first.
  const uint32_t first_query = (grid_y() - 1 - block_y()) * kTileQueries;
  if (first_query >= all) return;
  const uint32_t kv_head = block_x();
  const uint32_t last_query =
      first_query + kTileQueries < all ? first_query + kTileQueries - 1 : all - 1;
  const uint32_t end_row = before + last_query / p.group + 1;

  const Keys<Tile, kKey> keys{dynamic_shared<uint32_t>(0, Tile::kKeyWords)};
  const Values<Tile, kValue> values{
      dynamic_shared<uint32_t>(4 * Tile::kKeyWords, Tile::kValueWords)};
  const SharedPtr<uint32_t> queries = dynamic_shared<uint32_t>(
      4 * (Tile::kKeyWords + Tile::kValueWords), Tile::kQueryWords);  // [part][thread][4]

  OwnQueries own{};
  float factor[2];
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) {
    const uint32_t wanted = first_query + warp() * 16 + lane() / 4 + 8 * h;
    own.given[h] = wanted < all;
    const uint32_t query = own.given[h] ? wanted : all - 1;
    own.row[h] = before + query / p.group;
    own.head[h] = kv_head * p.group + query % p.group;
    own.slot[h] = static_cast<uint32_t>(Global<const int32_t>(p.last_seen)[own.row[h]]);
    const auto own_slot = static_cast<uint32_t>(Global<const int32_t>(p.slots)[own.row[h]]);
    own.first[h] = first_seen(own_slot, p.window, p.chunked);
    const Global<const float> q(p.q);
    const uint32_t at = place(p.q_strides, own.head[h], own.row[h]);
    float most = 0;
    for (uint32_t i = lane() % 4; i < kKey; i += 4) most = most_of(most, magnitude_of(q[at + i]));
    most = most_of(most, shuffle_xor(most, 1));
    most = most_of(most, shuffle_xor(most, 2));
    // 2^(127 − exponent) and its inverse; both are normal numbers.
    uint32_t exponent = bits_of(most) >> 23;
    exponent = exponent < 1 ? 1 : exponent > 253 ? 253 : exponent;
    factor[h] = float_of((254 - exponent) << 23);
    const float scale = p.softcap > 0 ? p.scale : p.scale * kLog2E;
    own.back[h] = scale * float_of(exponent << 23);
  }
  uint32_t a[Tile::kQueriesInRegisters ? kParts : 1][4];
#pragma unroll
  for (uint32_t part = 0; part < kParts; ++part) {
    if constexpr (Tile::kQueriesInRegisters) {
      query_fragment(p, own, factor, part, a[part]);
    } else {
      query_fragment(p, own, factor, part, a[0]);
      store_shared<uint4>(queries, (part * kTileThreads + thread()) * 4,
                          uint4{a[0][0], a[0][1], a[0][2], a[0][3]});
    }
  }

  // Largest score so far times log2 e, the lane's part of the sum of weights, mixes of values.
  float most[2];
  float sum[2];
  float mix[kValue / 8][4] = {};
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) {
    most[h] = p.sinks != 0 ? Global<const float>(p.sinks)[own.head[h]] * kLog2E : -infinity();
    sum[h] = p.sinks != 0 && lane() % 4 == 0 ? 1.0f : 0.0f;
  }
  const Pages table = pages_of(p.step, p.kind);
  // The lane's row of four matrices: two of 8 rows below each other, and the two beside them.
  const uint32_t matrix_row = lane() % 16;
  const uint32_t matrix_column = lane() / 16 * 4;  // words
  // The same, two beside each other and the two below them.
  const uint32_t wide_row = lane() / 16 * 8 + lane() % 8;
  const uint32_t wide_column = lane() / 8 % 2 * 4;

  for (uint32_t row = before + first_query / p.group; row < end_row;) {
    const Run run = run_of(p, row, end_row);
    const bool all_rows = row == before + first_query / p.group && row + run.count == end_row;
    uint32_t seen[2];  // tokens from own.first on
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const bool takes = own.row[h] - row < run.count;
      seen[h] = takes ? own.slot[h] - own.first[h] + 1 : 0;
    }
    row += run.count;
    const uint64_t k_offset = p.k_offset + uint64_t{kv_head} * kPageTokens * p.k_row;
    const uint64_t v_offset = p.v_offset + uint64_t{kv_head} * kPageTokens * p.v_row;
    const uint32_t last = run.most_slot / kTokens * kTokens;
    uint32_t begin = run.least_first / kTokens * kTokens;
    uint64_t page = table.of(run.sequence, begin);
    keys.copy(p, page + k_offset, begin % kPageTokens);
    async_commit();
    for (; begin <= last; begin += kTokens) {
      const uint32_t end = run.most_slot - begin + 1;  // tokens of the piece that are written
      values.copy(p, page + v_offset, begin % kPageTokens, end);
      async_commit();
      async_wait<1>();
      keys.take(p);
      // A warp that sees nothing of the piece has nothing to add.
      bool sees = false;
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h) {
        sees = sees || (seen[h] > 0 && own.first[h] < begin + kTokens && own.slot[h] >= begin);
      }
      const bool warp_sees = ballot(sees) != 0;
      float score[kColumns][4] = {};
      // `load(b, part, n)`: registers of B of 16 elements of tokens 16n and up.
      const auto multiply_keys = [&](const auto& load) {
#pragma unroll
        for (uint32_t part = 0; part < kParts; ++part) {
          if constexpr (!Tile::kQueriesInRegisters) {
            const uint4 q = load_shared<uint4>(queries, (part * kTileThreads + thread()) * 4);
            a[0][0] = q.x;
            a[0][1] = q.y;
            a[0][2] = q.z;
            a[0][3] = q.w;
          }
          const uint32_t(&q)[4] = a[Tile::kQueriesInRegisters ? part : 0];
#pragma unroll
          for (uint32_t n = 0; n < kTokens / 16; ++n) {
            uint32_t b[4];
            load(b, part, n);
            mma_f16(score[2 * n], q, {b[0], b[1]}, score[2 * n]);
            mma_f16(score[2 * n + 1], q, {b[2], b[3]}, score[2 * n + 1]);
          }
        }
      };
      if (warp_sees && p.across != 0) {
        multiply_keys([&](uint32_t(&b)[4], uint32_t part, uint32_t n) {
          load_turned_matrices(b, keys.at,
                               (part * 16 + matrix_row) * Tile::kAcrossRow + n * 8 + matrix_column);
        });
      } else if (warp_sees) {
        multiply_keys([&](uint32_t(&b)[4], uint32_t part, uint32_t n) {
          load_matrices(b, keys.at, (n * 16 + wide_row) * Tile::kKeyRow + part * 8 + wide_column);
        });
      }
      sync_block();  // the keys have been read
      if (begin + kTokens <= last) {
        if ((begin + kTokens) % kPageTokens == 0) page = table.of(run.sequence, begin + kTokens);
        keys.copy(p, page + k_offset, (begin + kTokens) % kPageTokens);
      }
      async_commit();

      // Weights, as registers of A.
      uint32_t weights[kTokens / 16][4];
      if (warp_sees) {
        const bool whole =
            all_rows && begin >= run.most_first && begin + kTokens - 1 <= run.least_slot;
        const auto for_scores = [&](const auto& use) {
#pragma unroll
          for (uint32_t j = 0; j < kColumns; ++j) {
#pragma unroll
            for (uint32_t i = 0; i < 4; ++i) use(score[j][i], i / 2, j * 8 + i % 2);
          }
        };
        for_scores([&](float& s, uint32_t h, uint32_t) { s = s * own.back[h]; });
        if (p.softcap > 0) {
          // cap · tanh(s / cap), whose error is small beside the cap, not beside itself.
          const float twice = 2.0f * kLog2E / p.softcap;
          const float cap = p.softcap * kLog2E;
          for_scores([&](float& s, uint32_t, uint32_t) {
            s = fused(-2.0f * cap, inverse_of(power_of_two(s * twice) + 1.0f), cap);
          });
        }
        if (!whole) {
          for_scores([&](float& s, uint32_t h, uint32_t token) {
            if (begin + lane() % 4 * 2 + token - own.first[h] >= seen[h]) s = -infinity();
          });
        }
        float now[2] = {most[0], most[1]};
        for_scores([&](float s, uint32_t h, uint32_t) { now[h] = most_of(now[h], s); });
        float base[2];
#pragma unroll
        for (uint32_t h = 0; h < 2; ++h) {
          now[h] = most_of(now[h], shuffle_xor(now[h], 1));
          now[h] = most_of(now[h], shuffle_xor(now[h], 2));
          base[h] = now[h] == -infinity() ? 0.0f : now[h];  // nothing seen so far: weights of 0
          const float shrink = power_of_two(most[h] - base[h]);
          most[h] = now[h];
          sum[h] = sum[h] * shrink;
#pragma unroll
          for (uint32_t d = 0; d < kValue / 8; ++d) {
            mix[d][2 * h] = mix[d][2 * h] * shrink;
            mix[d][2 * h + 1] = mix[d][2 * h + 1] * shrink;
          }
        }
#pragma unroll
        for (uint32_t j = 0; j < kColumns; ++j) {
          float weight[4];
#pragma unroll
          for (uint32_t i = 0; i < 4; ++i) {
            weight[i] = power_of_two(score[j][i] - base[i / 2]);
            sum[i / 2] = sum[i / 2] + weight[i];
          }
          weights[j / 2][j % 2 * 2] = packed_halves(weight[0], weight[1]);
          weights[j / 2][j % 2 * 2 + 1] = packed_halves(weight[2], weight[3]);
        }
      }
      async_wait<1>();
      values.take(p, end);
      if (warp_sees) {
#pragma unroll
        for (uint32_t s = 0; s < kTokens / 16; ++s) {
#pragma unroll
          for (uint32_t d = 0; d < kValue / 16; ++d) {
            uint32_t b[4];
            load_turned_matrices(b, values.at,
                                 (s * 16 + matrix_row) * Tile::kValueRow + d * 8 + matrix_column);
            mma_f16(mix[2 * d], weights[s], {b[0], b[1]}, mix[2 * d]);
            mma_f16(mix[2 * d + 1], weights[s], {b[2], b[3]}, mix[2 * d + 1]);
          }
        }
      }
      sync_block();  // the values have been read
    }
  }

#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) {
    float total = sum[h] + shuffle_xor(sum[h], 1);
    total = total + shuffle_xor(total, 2);
    if (!own.given[h]) continue;
    const Global<float> y(p.y + uint64_t{place(p.y_strides, own.head[h], own.row[h])} * 4);
#pragma unroll
    for (uint32_t d = 0; d < kValue / 8; ++d) {
      y[d * 8 + lane() % 4 * 2] = mix[d][2 * h] / total;
      y[d * 8 + lane() % 4 * 2 + 1] = mix[d][2 * h + 1] / total;
    }
  }
}

#define INFER_ATTENTION_TILE(key, value, blocks)                                        \
  INFER_KERNEL(attention_tile_##key##_##value, AttentionParams, kTileThreads, blocks) { \
    attend_tile<key, value>(p);                                                         \
  }
INFER_ATTENTION_TILES(INFER_ATTENTION_TILE)

}  // namespace infer::cuda
