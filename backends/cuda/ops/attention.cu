#include "backends/cuda/ops/attention.h"

#include "backends/cuda/device/merge.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/rotation.h"

namespace infer::cuda {

// Page by page. Scores: a warp has a quarter of a key's elements, a lane two tokens of the page.
// Weights of a page are relative to the largest score of the chunk so far (Milakov and Gimelshein
// 2018); a warp has every fourth head. Values: a warp has a quarter of the page's tokens, a lane
// four neighbouring elements of every 128.

/// Rows that cannot be read in fours: their type is known at run time only.
constexpr uint32_t kCacheOdd = 5;

/// Calls use(Constant<type>()), so that loops are compiled for each type and their loads go ahead
/// of what is computed. `whole`: rows can be read in fours.
template <typename Use>
INFER_DEVICE void with_type(uint32_t type, uint32_t whole, const Use& use) {
  switch (whole != 0 ? type : kCacheOdd) {
    case kCacheF32: use(Constant<kCacheF32>()); break;
    case kCacheF16: use(Constant<kCacheF16>()); break;
    case kCacheBf16: use(Constant<kCacheBf16>()); break;
    case kCacheQ8_0: use(Constant<kCacheQ8_0>()); break;
    case kCacheQ4_0: use(Constant<kCacheQ4_0>()); break;
    default: use(Constant<kCacheOdd>()); break;
  }
}

/// Two elements of 16 bits of type f16 or bf16.
template <uint32_t kType>
INFER_DEVICE float2 two_of(uint32_t word) {
  if constexpr (kType == kCacheF16) return {half_of(word & 0xffffu), half_of(word >> 16)};
  return {float_of(word << 16), float_of(word & 0xffff0000u)};
}

/// Elements i to i + 3 of a key or value at `row`, i a multiple of 4. kCacheOdd: of type `type`,
/// zeros from `end` on.
template <uint32_t kType>
INFER_DEVICE float4 four_of(uint32_t type, uint64_t row, uint32_t i, uint32_t end) {
  if constexpr (kType == kCacheOdd) {
    float4 v{0, 0, 0, 0};
    if (i < end) v.x = cache_element(type, row, i);
    if (i + 1 < end) v.y = cache_element(type, row, i + 1);
    if (i + 2 < end) v.z = cache_element(type, row, i + 2);
    if (i + 3 < end) v.w = cache_element(type, row, i + 3);
    return v;
  } else if constexpr (kType == kCacheF32) {
    const Global<const float> x(row);
    const float2 low = load_as<float2>(x, i);
    const float2 high = load_as<float2>(x, i + 2);
    return {low.x, low.y, high.x, high.y};
  } else if constexpr (kType == kCacheF16 || kType == kCacheBf16) {
    const uint2 words = load_as<uint2>(Global<const uint16_t>(row), i);
    const float2 low = two_of<kType>(words.x);
    const float2 high = two_of<kType>(words.y);
    return {low.x, low.y, high.x, high.y};
  } else {
    constexpr bool kWide = kType == kCacheQ8_0;
    const Global<const uint16_t> block(row + i / 32 * (kWide ? 34 : 18));
    const uint32_t at = 1 + i % (kWide ? 32 : 16) / 2;
    const uint32_t word = block[at] | static_cast<uint32_t>(block[at + 1]) << 16;
    const float scale = half_of(block[0]);
    const auto level = [&](uint32_t j) {
      if constexpr (kWide) {
        return static_cast<float>(static_cast<int32_t>(word << (24 - 8 * j)) >> 24);
      }
      const uint32_t nibble = (word >> (8 * j + i % 32 / 16 * 4)) & 15;
      return static_cast<float>(static_cast<int32_t>(nibble) - 8);
    };
    return {level(0) * scale, level(1) * scale, level(2) * scale, level(3) * scale};
  }
}

/// Element i of two neighbouring tokens of transposed keys.
template <uint32_t kType>
INFER_DEVICE float2 two_across(uint64_t keys, uint32_t i, uint32_t token) {
  const uint32_t at = i * kPageTokens + token;
  if constexpr (kType == kCacheF32) return load_as<float2>(Global<const float>(keys), at);
  return two_of<kType>(load_as<uint32_t>(Global<const uint16_t>(keys), at));
}

template <uint32_t kHeads>
struct Scores {
  float of[2][kHeads];  ///< by token of the lane
};

/// Adds the warp's part of the scores of tokens 2·lane and 2·lane + 1; `query`: [element][head].
template <uint32_t kType, uint32_t kHeads>
INFER_DEVICE void add_scores(const AttentionParams& p, uint64_t keys, const SharedPtr<float>& query,
                             Scores<kHeads>& scores) {
  const uint32_t quarter = (p.k_dim + 4 * kAttentionWarps - 1) / (4 * kAttentionWarps) * 4;
  const uint32_t begin = warp() * quarter;
  const uint32_t end = begin + quarter < p.k_dim ? begin + quarter : p.k_dim;
  const uint32_t token = 2 * lane();
  const auto add = [&](uint32_t i, float first, float second) {
#pragma unroll
    for (uint32_t h = 0; h < kHeads; ++h) {
      const float q = query[i * kHeads + h];
      scores.of[0][h] = fused(q, first, scores.of[0][h]);
      scores.of[1][h] = fused(q, second, scores.of[1][h]);
    }
  };
  if constexpr (kType == kCacheF32 || kType == kCacheF16 || kType == kCacheBf16) {
    if (p.across != 0) {
#pragma unroll 16
      for (uint32_t i = begin; i < end; ++i) {
        const float2 k = two_across<kType>(keys, i, token);
        add(i, k.x, k.y);
      }
      return;
    }
  }
  const uint64_t first = keys + token * p.k_row;
#pragma unroll(kType == kCacheOdd ? 1 : 4)
  for (uint32_t i = begin; i < end; i += 4) {
    const float4 a = four_of<kType>(p.k_type, first, i, p.k_dim);
    const float4 b = four_of<kType>(p.k_type, first + p.k_row, i, p.k_dim);
    add(i, a.x, b.x);
    if (kType != kCacheOdd || i + 1 < end) add(i + 1, a.y, b.y);
    if (kType != kCacheOdd || i + 2 < end) add(i + 2, a.z, b.z);
    if (kType != kCacheOdd || i + 3 < end) add(i + 3, a.w, b.w);
  }
}

/// Adds the values of tokens [token, end), weighed. A lane has four elements of every 128.
template <uint32_t kType, uint32_t kHeads, uint32_t kFours>
INFER_DEVICE void add_values(const AttentionParams& p, uint64_t values, uint32_t token,
                             uint32_t end, const SharedPtr<float>& weights,
                             float (&mix)[kHeads][kFours][4]) {
#pragma unroll(kType == kCacheOdd ? 1 : 8)
  for (; token < end; ++token) {
    float weight[kHeads];
#pragma unroll
    for (uint32_t h = 0; h < kHeads; ++h) weight[h] = weights[h * kPageTokens + token];
#pragma unroll
    for (uint32_t f = 0; f < kFours; ++f) {
      const uint32_t d = f * 128 + lane() * 4;
      if (d >= p.v_dim) break;
      const float4 v = four_of<kType>(p.v_type, values + token * p.v_row, d, p.v_dim);
#pragma unroll
      for (uint32_t h = 0; h < kHeads; ++h) {
        mix[h][f][0] = fused(weight[h], v.x, mix[h][f][0]);
        mix[h][f][1] = fused(weight[h], v.y, mix[h][f][1]);
        mix[h][f][2] = fused(weight[h], v.z, mix[h][f][2]);
        mix[h][f][3] = fused(weight[h], v.w, mix[h][f][3]);
      }
    }
  }
}

/// Stores the key and value of a row's own token, of one of their heads.
INFER_DEVICE void store_own(const AttentionParams& p, uint32_t head, uint32_t row, uint32_t slot,
                            uint64_t page) {
  const Global<const float> k(p.k);
  const Global<const float> v(p.v);
  const Global<const float> table(p.table);
  for (uint32_t i = thread(); i < p.k_dim; i += kAttentionThreads) {
    const UnitPlace to = place_in_page(page + p.k_offset, head, slot, p.k_row, p.across, i);
    store_element(
        p.k_type,
        roped(p.style, k, place(p.k_strides, head, row), i, p.pairs, table, p.table_strides, row),
        to.row, to.unit);
  }
  if (p.v_offset == p.k_offset) return;  // values that are part of their keys
  for (uint32_t i = thread(); i < p.v_dim; i += kAttentionThreads) {
    const UnitPlace to = place_in_page(page + p.v_offset, head, slot, p.v_row, 0, i);
    store_element(p.v_type, v[place(p.v_strides, head, row) + i], to.row, to.unit);
  }
}

/// kFours: fours of a value that a lane has.
template <uint32_t kHeads, uint32_t kFours>
INFER_DEVICE void attend(const AttentionParams& p) {
  constexpr uint32_t kOwnHeads = (kHeads + kAttentionWarps - 1) / kAttentionWarps;
  const uint32_t row = p.first_row + block_y();
  if (row >= step_rows(p.step, p.rows)) return;
  const uint32_t kv_head = block_x() / p.group_blocks;
  const uint32_t in_group = block_x() % p.group_blocks * kHeads;
  const uint32_t first_head = kv_head * p.group + in_group;
  const uint32_t heads = p.group - in_group < kHeads ? p.group - in_group : kHeads;
  const auto own_slot = static_cast<uint32_t>(Global<const int32_t>(p.slots)[row]);
  const auto slot = static_cast<uint32_t>(Global<const int32_t>(p.last_seen)[row]);
  const auto sequence = static_cast<uint32_t>(Global<const int32_t>(p.sequences)[row]);
  const uint32_t first = first_seen(own_slot, p.window, p.chunked);
  const uint32_t pages = pages_seen(first, slot);
  const uint32_t of_chunk = chunk_pages(pages);
  const uint32_t begin_page = p.split != 0 ? block_z() * of_chunk : 0;
  if (begin_page >= pages) return;

  const SharedPtr<float> query = dynamic_shared<float>(0, p.k_dim * kHeads);
  const uint32_t mixes_at = p.k_dim * kHeads * 4;
  const SharedPtr<float> mixes =
      dynamic_shared<float>(mixes_at, kAttentionWarps * kHeads * p.v_dim);
  const SharedPtr<float> merged =
      dynamic_shared<float>(mixes_at + kAttentionWarps * kHeads * p.v_dim * 4, kHeads * p.v_dim);
  INFER_SHARED(float, partial, kAttentionWarps* kHeads* kPageTokens);
  INFER_SHARED(float, weights, kHeads* kPageTokens);
  INFER_SHARED(float, shrinks, kHeads);
  INFER_SHARED(float, chunk_mosts, kHeads);
  INFER_SHARED(float, chunk_sums, kHeads);

  for (uint32_t i = thread(); i < kHeads * p.k_dim; i += kAttentionThreads) {
    const uint32_t h = i / p.k_dim;
    const uint32_t element = i % p.k_dim;
    float value = 0;
    if (h < heads) {
      const Global<const float> q(p.q);
      const uint32_t from = place(p.q_strides, first_head + h, row);
      value = p.table != 0 ? roped(p.style, q, from, element, p.pairs, Global<const float>(p.table),
                                   p.table_strides, row)
                           : q[from + element];
    }
    query[element * kHeads + h] = value;
  }
  if (p.split == 0) {
    for (uint32_t i = thread(); i < kHeads * p.v_dim; i += kAttentionThreads) merged[i] = 0.0f;
  }
  // Of the heads that the warp has: of the chunk.
  float most[kOwnHeads];
  float sum[kOwnHeads];
  // Of all heads: merged.
  float all_most[kHeads];
  float all_sum[kHeads];
#pragma unroll
  for (uint32_t h = 0; h < kHeads; ++h) {
    const bool sink = p.sinks != 0 && h < heads;
    all_most[h] = sink ? Global<const float>(p.sinks)[first_head + h] : -infinity();
    all_sum[h] = sink ? 1.0f : 0.0f;
  }
  float mix[kHeads][kFours][4];
  const Pages table = pages_of(p.step, p.kind);
  if (p.table != 0 && begin_page + of_chunk >= pages) {  // the loop begins with a barrier
    store_own(p, kv_head, row, own_slot, table.of(sequence, own_slot));
  }
  uint32_t chunk = p.split != 0 ? block_z() : 0;
  uint32_t next_chunk = begin_page;  // the page that begins it
  for (uint32_t page = begin_page; page < pages; ++page) {
    if (page >= next_chunk) {
      next_chunk = page + of_chunk;
#pragma unroll
      for (uint32_t o = 0; o < kOwnHeads; ++o) {
        most[o] = -infinity();
        sum[o] = 0;
      }
#pragma unroll
      for (uint32_t h = 0; h < kHeads; ++h) {
#pragma unroll
        for (uint32_t f = 0; f < kFours; ++f) {
#pragma unroll
          for (uint32_t e = 0; e < 4; ++e) mix[h][f][e] = 0;
        }
      }
    }
    const uint32_t begin = (first / kPageTokens + page) * kPageTokens;
    const uint64_t stored = table.of(sequence, begin);
    sync_block();  // the queries are there; the page before has been taken in
    const uint64_t keys = stored + p.k_offset + uint64_t{kv_head} * kPageTokens * p.k_row;
    Scores<kHeads> part{};
    with_type(p.k_type, p.keys_whole | p.across,
              [&](auto type) { add_scores<decltype(type)::kValue>(p, keys, query, part); });
#pragma unroll
    for (uint32_t h = 0; h < kHeads; ++h) {
      store_shared<float2>(partial, (warp() * kHeads + h) * kPageTokens + 2 * lane(),
                           float2{part.of[0][h], part.of[1][h]});
    }
    sync_block();
#pragma unroll
    for (uint32_t o = 0; o < kOwnHeads; ++o) {
      const uint32_t h = o * kAttentionWarps + warp();
      if (h >= kHeads) break;
      float score[2];
      bool seen[2];
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        const uint32_t token = lane() + 32 * j;
        seen[j] = begin + token >= first && begin + token <= slot;
        float s = partial[h * kPageTokens + token];
#pragma unroll
        for (uint32_t w = 1; w < kAttentionWarps; ++w) {
          s = s + partial[(w * kHeads + h) * kPageTokens + token];
        }
        s = s * p.scale;
        if (p.softcap > 0) s = p.softcap * tanh_of(s / p.softcap);
        score[j] = seen[j] ? s : -infinity();
      }
      const float now = most_of(most[o], warp_max(most_of(score[0], score[1])));
      const float shrink = exp_of(most[o] - now);
      float own = 0;
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        const float weight = seen[j] ? exp_of(score[j] - now) : 0.0f;
        weights[h * kPageTokens + lane() + 32 * j] = weight;
        own = own + weight;
      }
      sum[o] = fused(sum[o], shrink, warp_sum(own));
      most[o] = now;
      if (lane() == 0) shrinks[h] = shrink;
    }
    sync_block();
    const uint32_t quarter = kPageTokens / kAttentionWarps;
    uint32_t token = warp() * quarter;
    const uint32_t behind = slot - begin + 1;
    const uint32_t end = token + quarter < behind ? token + quarter : behind;
    if (begin + token < first) token = first - begin;
#pragma unroll
    for (uint32_t h = 0; h < kHeads; ++h) {
      const float shrink = shrinks[h];
#pragma unroll
      for (uint32_t f = 0; f < kFours; ++f) {
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e) mix[h][f][e] = mix[h][f][e] * shrink;
      }
    }
    const uint64_t values = stored + p.v_offset + uint64_t{kv_head} * kPageTokens * p.v_row;
    with_type(p.v_type, p.values_whole, [&](auto type) {
      add_values<decltype(type)::kValue>(p, values, token, end, weights, mix);
    });
    if (page + 1 < next_chunk && page + 1 < pages) continue;

      // The chunk ends: the warps' mixes are added in order.
#pragma unroll
    for (uint32_t h = 0; h < kHeads; ++h) {
#pragma unroll
      for (uint32_t f = 0; f < kFours; ++f) {
        const uint32_t d = f * 128 + lane() * 4;
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e) {
          if (d + e < p.v_dim) mixes[(warp() * kHeads + h) * p.v_dim + d + e] = mix[h][f][e];
        }
      }
    }
#pragma unroll
    for (uint32_t o = 0; o < kOwnHeads; ++o) {
      const uint32_t h = o * kAttentionWarps + warp();
      if (h < kHeads && lane() == 0) {
        chunk_mosts[h] = most[o];
        chunk_sums[h] = sum[o];
      }
    }
    sync_block();
#pragma unroll
    for (uint32_t h = 0; h < kHeads; ++h) {
      if (h >= heads) break;
      const float chunk_most = chunk_mosts[h];
      const float chunk_sum = chunk_sums[h];
      const Global<float> to(p.chunks +
                             ((uint64_t{row} * p.heads + first_head + h) * kChunks + chunk) *
                                 (p.v_dim + 2) * 4);
      const Merging m = merge(all_most[h], all_sum[h], chunk_most, chunk_sum);
      if (p.split != 0 && thread() == 0) {
        to[0] = chunk_sum;
        to[1] = chunk_most;
      }
      for (uint32_t d = thread(); d < p.v_dim; d += kAttentionThreads) {
        float all = mixes[h * p.v_dim + d];
#pragma unroll
        for (uint32_t w = 1; w < kAttentionWarps; ++w) {
          all = all + mixes[(w * kHeads + h) * p.v_dim + d];
        }
        if (p.split != 0) {
          to[2 + d] = all;
        } else {
          merged[h * p.v_dim + d] = merged_mix(merged[h * p.v_dim + d], all, m);
        }
      }
    }
    if (p.split != 0) {
      const uint32_t chunks = (pages + of_chunk - 1) / of_chunk;
      if (comes_last(p.counters + (uint64_t{row} * grid_x() + block_x()) * 4, chunks)) {
        merge_chunks(p, row, first_head, heads, chunks);
      }
      return;
    }
    ++chunk;
  }
#pragma unroll
  for (uint32_t h = 0; h < kHeads; ++h) {
    if (h >= heads) break;
    const uint32_t to = place(p.y_strides, first_head + h, row);
    for (uint32_t d = thread(); d < p.v_dim; d += kAttentionThreads) {
      Global<float>(p.y)[to + d] = merged[h * p.v_dim + d] / all_sum[h];
    }
  }
}

#define INFER_ATTENTION(heads, fours)                                                \
  INFER_KERNEL(attention_##heads##_##fours, AttentionParams, kAttentionThreads, 3) { \
    attend<heads, fours>(p);                                                         \
  }
INFER_ATTENTION(1, 1)
INFER_ATTENTION(2, 1)
INFER_ATTENTION(4, 1)
INFER_ATTENTION(1, 2)
INFER_ATTENTION(2, 2)
INFER_ATTENTION(4, 2)
INFER_ATTENTION(1, 4)
INFER_ATTENTION(2, 4)
INFER_ATTENTION(1, 8)

}  // namespace infer::cuda
