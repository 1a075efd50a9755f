#include "backends/cuda/ops/attention.h"

#include "backends/cuda/device/cache_rows.h"
#include "backends/cuda/device/merge.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/rotation.h"

namespace infer::cuda {

// Page by page. Scores: a warp has a quarter of a key's elements, a lane two tokens of the page.
// Weights of a page are relative to the largest score of the chunk so far (Milakov and Gimelshein
// 2018); a warp has every fourth head. Values: a warp has a quarter of the page's tokens, a lane
// four neighbouring elements of every 128.
//
// Where a row has a list of the slots that it sees, 64 places of the list are a page.

template <uint32_t kHeads>
struct Scores {
  float of[2][kHeads];  ///< by token of the lane
};

/// Where the keys or values of a page's tokens are. Of transposed keys: where their elements begin.
struct PageRows {
  uint64_t begin;
  uint32_t stride;
  INFER_DEVICE uint64_t operator[](uint32_t token) const { return begin + token * stride; }
  /// Element i of two neighbouring tokens of transposed keys.
  template <uint32_t kType>
  INFER_DEVICE float2 across(uint32_t i, uint32_t token) const {
    return two_across<kType>(begin, i, token);
  }
};
/// The same of tokens that a list names.
struct ListedRows {
  SharedPtr<uint64_t> rows;
  INFER_DEVICE uint64_t operator[](uint32_t token) const { return rows[token]; }
  template <uint32_t kType>
  INFER_DEVICE float2 across(uint32_t i, uint32_t token) const {
    return {cache_element(kType, rows[token], i * kPageTokens),
            cache_element(kType, rows[token + 1], i * kPageTokens)};
  }
};

/// Adds the warp's part of the scores of tokens 2·lane and 2·lane + 1; `query`: [element][head].
/// kAhead: elements of transposed keys that are loaded together.
template <uint32_t kType, uint32_t kAhead, uint32_t kHeads, typename Rows>
INFER_DEVICE void add_scores(const AttentionParams& p, const Rows& keys,
                             const SharedPtr<float>& query, Scores<kHeads>& scores) {
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
#pragma unroll kAhead
      for (uint32_t i = begin; i < end; ++i) {
        const float2 k = keys.template across<kType>(i, token);
        add(i, k.x, k.y);
      }
      return;
    }
  }
  const uint64_t first = keys[token];
  const uint64_t second = keys[token + 1];
#pragma unroll(kType == kCacheOdd ? 1 : 4)
  for (uint32_t i = begin; i < end; i += 4) {
    const float4 a = four_of<kType>(p.k_type, first, i, p.k_dim);
    const float4 b = four_of<kType>(p.k_type, second, i, p.k_dim);
    add(i, a.x, b.x);
    if (kType != kCacheOdd || i + 1 < end) add(i + 1, a.y, b.y);
    if (kType != kCacheOdd || i + 2 < end) add(i + 2, a.z, b.z);
    if (kType != kCacheOdd || i + 3 < end) add(i + 3, a.w, b.w);
  }
}

/// Adds the values of tokens [token, end), weighed. A lane has four elements of every 128.
template <uint32_t kType, uint32_t kHeads, uint32_t kFours, typename Rows>
INFER_DEVICE void add_values(const AttentionParams& p, const Rows& values, uint32_t token,
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
      const float4 v = four_of<kType>(p.v_type, values[token], d, p.v_dim);
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

/// kFours: fours of a value that a lane has. kChosen: rows have lists of what they see.
template <uint32_t kHeads, uint32_t kFours, bool kChosen>
INFER_DEVICE void attend(const AttentionParams& p) {
  constexpr uint32_t kOwnHeads = (kHeads + kAttentionWarps - 1) / kAttentionWarps;
  // Four heads with two fours of values leave registers for no more.
  constexpr uint32_t kAhead = kHeads == 4 && kFours == 2 ? (kChosen ? 4 : 8) : 16;
  const uint32_t row = p.first_row + block_y();
  if (row >= step_rows(p.step, p.rows)) return;
  const uint32_t kv_head = block_x() / p.group_blocks;
  const uint32_t in_group = block_x() % p.group_blocks * kHeads;
  const uint32_t first_head = kv_head * p.group + in_group;
  const uint32_t heads = p.group - in_group < kHeads ? p.group - in_group : kHeads;
  const auto own_slot = static_cast<uint32_t>(Global<const int32_t>(p.slots)[row]);
  const auto sequence = static_cast<uint32_t>(Global<const int32_t>(p.sequences)[row]);
  uint32_t slot = 0;  // the last one; or place in the list
  uint32_t first = 0;
  if constexpr (kChosen) {
    // As op::SelectSlots::given() says, less one.
    slot = own_slot < p.chosen_count
               ? own_slot
               : p.chosen_count - p.chosen_block + (own_slot + p.chosen_shift) % p.chosen_block;
  } else {
    slot = static_cast<uint32_t>(Global<const int32_t>(p.last_seen)[row]);
    first = first_seen(own_slot, p.window, p.chunked);
  }
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
  // Of two pages in turn, if they are listed.
  INFER_SHARED(uint64_t, listed_keys, kChosen ? 2 * kPageTokens : 1);
  INFER_SHARED(uint64_t, listed_values, kChosen ? 2 * kPageTokens : 1);

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
    const uint64_t stored = kChosen ? 0 : table.of(sequence, begin);
    const uint32_t turn = page % 2 * kPageTokens;
    if (kChosen && thread() < kPageTokens) {
      const uint32_t at = begin + thread() < slot ? begin + thread() : slot;
      const auto s = static_cast<uint32_t>(
          Global<const int32_t>(p.chosen)[int64_t{row} * p.chosen_stride +
                                          kv_head * p.chosen_list_stride + at]);
      const uint64_t of_slot = table.of(sequence, s);
      const uint32_t heads_before = kv_head * kPageTokens;
      listed_keys[turn + thread()] =
          of_slot + p.k_offset +
          (p.across != 0 ? uint64_t{heads_before} * p.k_row + s % kPageTokens * (p.k_row / p.k_dim)
                         : uint64_t{heads_before + s % kPageTokens} * p.k_row);
      listed_values[turn + thread()] =
          of_slot + p.v_offset + uint64_t{heads_before + s % kPageTokens} * p.v_row;
    }
    sync_block();  // the queries are there; the page before has been taken in
    Scores<kHeads> part{};
    with_type(p.k_type, p.keys_whole | p.across, [&](auto type) {
      constexpr uint32_t kType = decltype(type)::kValue;
      if constexpr (kChosen) {
        add_scores<kType, kAhead>(p, ListedRows{listed_keys + turn}, query, part);
      } else {
        const uint64_t keys = stored + p.k_offset + uint64_t{kv_head} * kPageTokens * p.k_row;
        add_scores<kType, kAhead>(p, PageRows{keys, p.k_row}, query, part);
      }
    });
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
      const float slope = !kChosen && p.slopes != 0 && h < heads
                              ? Global<const float>(p.slopes)[first_head + h]
                              : 0.0f;
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
        if (!kChosen && p.slopes != 0) {
          const auto distance = static_cast<float>(static_cast<int32_t>(own_slot) -
                                                   static_cast<int32_t>(begin + token));
          s = fused(-slope, magnitude_of(distance), s);
        }
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
    with_type(p.v_type, p.values_whole, [&](auto type) {
      constexpr uint32_t kType = decltype(type)::kValue;
      if constexpr (kChosen) {
        add_values<kType>(p, ListedRows{listed_values + turn}, token, end, weights, mix);
      } else {
        const uint64_t values = stored + p.v_offset + uint64_t{kv_head} * kPageTokens * p.v_row;
        add_values<kType>(p, PageRows{values, p.v_row}, token, end, weights, mix);
      }
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

#define INFER_ATTENTION(heads, fours)                                                       \
  INFER_KERNEL(attention_##heads##_##fours, AttentionParams, kAttentionThreads, 3) {        \
    attend<heads, fours, false>(p);                                                         \
  }                                                                                         \
  INFER_KERNEL(attention_chosen_##heads##_##fours, AttentionParams, kAttentionThreads, 3) { \
    attend<heads, fours, true>(p);                                                          \
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
