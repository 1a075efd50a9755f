// Attention of tiles of queries on tensor cores. A block has 64 queries of one head of keys:
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
//
// A Source tells what a kernel attends to:
//   p                                    the kernel's parameters
//   rows()                               TileRows of the launch
//   seen(row), run_of(begin, end)        what rows see: Seen; the first Run of rows
//   query(at, i)                         element i of the query at element `at`
//   page(sequence, token)                where a token's page is, for the copies below
//   copy_keys(to, head, page, token, last), take_keys(at)
//                                        starts the copy of a piece; makes it float16, after the
//                                        wait, and ends with a barrier. `last`: the last token that
//                                        a row of the run sees
//   copy_values(to, head, page, token, end), take_values(at, end)
//                                        the same; tokens from `end` of the piece on become zeros,
//                                        and all values finite: what a query does not see has a
//                                        weight of 0, and 0 times an infinity would be something
//   across()                             keys are [element][token], not [token][element]
//   value_elements()                     of a head: the others of its tile are padding
//   kBiases, position(row), slope(head)  scores have biases by distance
#pragma once

#include "backends/cuda/device/async_copy.h"
#include "backends/cuda/device/cache.h"
#include "backends/cuda/device/mma.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/ops/attention_tile.h"

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

/// Each word that this thread has copied of a matrix of 16 bits an element becomes use(word).
template <uint32_t kRows, uint32_t kElements, uint32_t kStride, typename Use>
INFER_DEVICE void for_own_words(const SharedPtr<uint32_t>& at, const Use& use) {
  for_own_pieces<kRows, kElements>([&](uint32_t row, uint32_t piece) {
    const uint32_t i = row * kStride + piece * 4;
    const uint4 v = load_shared<uint4>(at, i);
    store_shared<uint4>(at, i, uint4{use(v.x), use(v.y), use(v.z), use(v.w)});
  });
}

/// Bfloat16 that this thread has copied become float16.
template <uint32_t kRows, uint32_t kElements, uint32_t kStride>
INFER_DEVICE void brains_to_halves(const SharedPtr<uint32_t>& at) {
  for_own_words<kRows, kElements, kStride>(at, [](uint32_t word) {
    return packed_halves(limited(float_of(word << 16)), limited(float_of(word & 0xffff0000u)));
  });
}

/// The two queries whose fragments a lane has parts of: g and g + 8 of its warp.
struct OwnQueries {
  /// Turns a product of the scaled query with a key into the score times log2 e; with a soft cap,
  /// into the score.
  float back[2];
  // Of sources with biases:
  uint32_t position[2];
  float slope[2];  ///< of the score as `back` gives it
};

/// Registers of A of 16 elements of the warp's queries. Each query is multiplied by a power of two,
/// so that its largest element is in [1, 2).
template <typename Source>
INFER_DEVICE void query_fragment(const Source& source, const uint32_t (&at)[2],
                                 const float (&factor)[2], uint32_t part, uint32_t (&a)[4]) {
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t h = i % 2;
    const uint32_t element = part * 16 + i / 2 * 8 + lane() % 4 * 2;
    a[i] = packed_halves(source.query(at[h], element) * factor[h],
                         source.query(at[h], element + 1) * factor[h]);
  }
}

/// Rows [begin, begin + count) of the step that are of one sequence, and what they see.
struct Run {
  uint32_t begin, count;
  uint32_t sequence;
  uint32_t least_first, most_first, least_slot, most_slot;
};

/// The first and the last token of its sequence that a row sees.
struct Seen {
  uint32_t first, slot;
};
/// Rows [begin, end) of the step.
struct TileRows {
  uint32_t begin, end;
};

template <uint32_t kKey, uint32_t kValue, typename Source>
INFER_DEVICE void attend_tile(const Source& source) {
  using Tile = AttentionTile<kKey, kValue>;
  constexpr uint32_t kParts = kKey / 16;
  constexpr uint32_t kTokens = Tile::kTokens;
  constexpr uint32_t kColumns = kTokens / 8;  // of scores, in eights
  const auto& p = source.p;
  const TileRows rows = source.rows();
  const uint32_t before = rows.begin;
  const uint32_t all = (rows.end - before) * p.group;
  // Those that see the most begin first.
  const uint32_t first_query = (grid_y() - 1 - block_y()) * kTileQueries;
  if (first_query >= all) return;
  const uint32_t kv_head = block_x();
  const uint32_t last_query =
      first_query + kTileQueries < all ? first_query + kTileQueries - 1 : all - 1;
  const uint32_t end_row = before + last_query / p.group + 1;

  const SharedPtr<uint32_t> keys = dynamic_shared<uint32_t>(0, Tile::kKeyWords);
  const SharedPtr<uint32_t> values =
      dynamic_shared<uint32_t>(4 * Tile::kKeyWords, Tile::kValueWords);
  const SharedPtr<uint32_t> queries = dynamic_shared<uint32_t>(
      4 * (Tile::kKeyWords + Tile::kValueWords), Tile::kQueryWords);  // [part][thread][4]

  const auto wanted = [&](uint32_t h) { return first_query + warp() * 16 + lane() / 4 + 8 * h; };
  // Behind the last query there is none: the last one is computed again, and not stored.
  const auto query_of = [&](uint32_t h) { return wanted(h) < all ? wanted(h) : all - 1; };
  const auto row_of = [&](uint32_t h) { return before + query_of(h) / p.group; };
  const auto head_of = [&](uint32_t h) { return kv_head * p.group + query_of(h) % p.group; };
  OwnQueries own{};
  uint32_t at[2];
  float factor[2];
#pragma unroll
  for (uint32_t h = 0; h < 2; ++h) {
    at[h] = place(p.q_strides, head_of(h), row_of(h));
    float most = 0;
    for (uint32_t i = lane() % 4; i < kKey; i += 4) {
      most = most_of(most, magnitude_of(source.query(at[h], i)));
    }
    most = most_of(most, shuffle_xor(most, 1));
    most = most_of(most, shuffle_xor(most, 2));
    // 2^(127 − exponent) and its inverse; both are normal numbers.
    uint32_t exponent = bits_of(most) >> 23;
    exponent = exponent < 1 ? 1 : exponent > 253 ? 253 : exponent;
    factor[h] = float_of((254 - exponent) << 23);
    const float scale = p.softcap > 0 ? p.scale : p.scale * kLog2E;
    own.back[h] = scale * float_of(exponent << 23);
    if constexpr (Source::kBiases) {
      own.position[h] = source.position(row_of(h));
      own.slope[h] = source.slope(head_of(h)) * (p.softcap > 0 ? 1.0f : kLog2E);
    }
  }
  uint32_t a[Tile::kQueriesInRegisters ? kParts : 1][4];
#pragma unroll
  for (uint32_t part = 0; part < kParts; ++part) {
    if constexpr (Tile::kQueriesInRegisters) {
      query_fragment(source, at, factor, part, a[part]);
    } else {
      query_fragment(source, at, factor, part, a[0]);
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
    most[h] = p.sinks != 0 ? Global<const float>(p.sinks)[head_of(h)] * kLog2E : -infinity();
    sum[h] = p.sinks != 0 && lane() % 4 == 0 ? 1.0f : 0.0f;
  }
  // The lane's row of four matrices: two of 8 rows below each other, and the two beside them.
  const uint32_t matrix_row = lane() % 16;
  const uint32_t matrix_column = lane() / 16 * 4;  // words
  // The same, two beside each other and the two below them.
  const uint32_t wide_row = lane() / 16 * 8 + lane() % 8;
  const uint32_t wide_column = lane() / 8 % 2 * 4;

  for (uint32_t row = before + first_query / p.group; row < end_row;) {
    const Run run = source.run_of(row, end_row);
    const bool all_rows = row == before + first_query / p.group && row + run.count == end_row;
    // Tokens that the queries see: so many from the first one on.
    uint32_t first[2];
    uint32_t seen[2];
#pragma unroll
    for (uint32_t h = 0; h < 2; ++h) {
      const Seen of_row = source.seen(row_of(h));
      first[h] = of_row.first;
      seen[h] = row_of(h) - row < run.count ? of_row.slot - of_row.first + 1 : 0;
    }
    row += run.count;
    const uint32_t last = run.most_slot / kTokens * kTokens;
    uint32_t begin = run.least_first / kTokens * kTokens;
    uint64_t page = source.page(run.sequence, begin);
    source.copy_keys(keys, kv_head, page, begin, run.most_slot);
    async_commit();
    for (; begin <= last; begin += kTokens) {
      const uint32_t end = run.most_slot - begin + 1;  // tokens of the piece that are written
      source.copy_values(values, kv_head, page, begin, end);
      async_commit();
      async_wait<1>();
      source.take_keys(keys);
      // A warp that sees nothing of the piece has nothing to add.
      bool sees = false;
#pragma unroll
      for (uint32_t h = 0; h < 2; ++h) {
        sees = sees || (seen[h] > 0 && first[h] < begin + kTokens && first[h] + seen[h] > begin);
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
      if (warp_sees && source.across()) {
        multiply_keys([&](uint32_t(&b)[4], uint32_t part, uint32_t n) {
          load_turned_matrices(b, keys,
                               (part * 16 + matrix_row) * Tile::kAcrossRow + n * 8 + matrix_column);
        });
      } else if (warp_sees) {
        multiply_keys([&](uint32_t(&b)[4], uint32_t part, uint32_t n) {
          load_matrices(b, keys, (n * 16 + wide_row) * Tile::kKeyRow + part * 8 + wide_column);
        });
      }
      sync_block();  // the keys have been read
      if (begin + kTokens <= last) {
        const uint32_t next = begin + kTokens;
        if (next % kPageTokens == 0) page = source.page(run.sequence, next);
        source.copy_keys(keys, kv_head, page, next, run.most_slot);
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
        if constexpr (Source::kBiases) {
          if (p.slopes != 0) {
            for_scores([&](float& s, uint32_t h, uint32_t token) {
              const uint32_t key = begin + lane() % 4 * 2 + token;
              const auto distance = static_cast<float>(static_cast<int32_t>(own.position[h]) -
                                                       static_cast<int32_t>(key));
              s = fused(-own.slope[h], magnitude_of(distance), s);
            });
          }
        }
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
            if (begin + lane() % 4 * 2 + token - first[h] >= seen[h]) s = -infinity();
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
      source.take_values(values, end);
      if (warp_sees) {
#pragma unroll
        for (uint32_t s = 0; s < kTokens / 16; ++s) {
#pragma unroll
          for (uint32_t d = 0; d < kValue / 16; ++d) {
            uint32_t b[4];
            load_turned_matrices(b, values,
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
    if (wanted(h) >= all) continue;
    const Global<float> y(p.y + uint64_t{place(p.y_strides, head_of(h), row_of(h))} * 4);
#pragma unroll
    for (uint32_t d = 0; d < kValue / 8; ++d) {
      const uint32_t element = d * 8 + lane() % 4 * 2;
      if (element < source.value_elements()) y[element] = mix[d][2 * h] / total;
      if (element + 1 < source.value_elements()) y[element + 1] = mix[d][2 * h + 1] / total;
    }
  }
}

}  // namespace infer::cuda
