#include "backends/cuda/ops/pooled_attention.h"

#include "backends/cuda/device/cache_rows.h"
#include "backends/cuda/device/merge.h"
#include "backends/cuda/device/reduce.h"

namespace infer::cuda {

// 64 keys at a time: those of the window, then those of blocks. Scores: a warp has a quarter of the
// keys, kKeysTogether at a time, a lane some elements of each. Weights are relative to the largest score
// of the chunk so far (Milakov and Gimelshein 2018). Values: a thread has four elements. What a head
// gets does not depend on the heads beside it.

constexpr uint32_t kPooledWarps = kPooledThreads / 32;
constexpr uint32_t kKeysTogether = 4;
constexpr uint32_t kOwnHeads = kPooledHeads / kPooledWarps;  // of a warp: every kPooledWarps-th
static_assert(kPooledWarps == kAttentionWarps);  // merge_chunks()

/// A key and value of a layer.
struct PooledPlace {
  uint64_t key, value;
};
INFER_DEVICE PooledPlace place_of(const PooledAttentionParams& p, const PooledLayer& layer,
                                  uint32_t sequence, uint32_t slot) {
  const uint64_t page = pages_of(p.step, layer.kind).of(sequence, slot);
  const uint32_t row = slot % kPageTokens / layer.tokens;
  const uint32_t before = row * (layer.k_element != 0 ? layer.k_element : layer.k_row);
  return {page + layer.k_offset + before, page + layer.v_offset + row * layer.v_row};
}

/// Element i of a key whose elements lie side by side, or a page apart.
INFER_DEVICE float key_element(const PooledAttentionParams& p, uint64_t key, bool across,
                               uint32_t i) {
  return cache_element(p.k_type, key, across ? i * kPageTokens : i);
}

/// Elements i to i + 3 of a key, zeros behind the last one.
template <uint32_t kType>
INFER_DEVICE float4 key_fours(const PooledAttentionParams& p, uint64_t key, bool across, uint32_t i) {
  if constexpr (kType == kCacheOdd) {
    const auto element = [&](uint32_t e) {
      return i + e < p.k_dim ? key_element(p, key, across, i + e) : 0.0f;
    };
    return {element(0), element(1), element(2), element(3)};
  } else {
    return four_of<kType>(p.k_type, key, i, p.k_dim);
  }
}

/// Adds the lane's part of the scores of keys j, j + kPooledWarps, … of a page, which has `here` keys.
template <uint32_t kType>
INFER_DEVICE void add_scores(const PooledAttentionParams& p, const SharedPtr<uint64_t>& keys,
                             const SharedPtr<uint32_t>& transposed, uint32_t j, uint32_t here,
                             const SharedPtr<float>& queries,
                             float (&scores)[kKeysTogether][kPooledHeads]) {
  const uint32_t stride = (p.k_dim + 3) / 4 * 4;
  uint64_t at[kKeysTogether];
  bool across[kKeysTogether];
#pragma unroll
  for (uint32_t n = 0; n < kKeysTogether; ++n) {
    const uint32_t key = j + n * kPooledWarps < here ? j + n * kPooledWarps : j;
    at[n] = keys[key];
    across[n] = transposed[key] != 0;
  }
  for (uint32_t i = 4 * lane(); i < p.k_dim; i += 128) {
    float4 k[kKeysTogether];
#pragma unroll
    for (uint32_t n = 0; n < kKeysTogether; ++n) k[n] = key_fours<kType>(p, at[n], across[n], i);
#pragma unroll
    for (uint32_t h = 0; h < kPooledHeads; ++h) {
      const float4 q = load_shared<float4>(queries, h * stride + i);
#pragma unroll
      for (uint32_t n = 0; n < kKeysTogether; ++n) {
        float sum = fused(q.x, k[n].x, scores[n][h]);
        sum = fused(q.y, k[n].y, sum);
        sum = fused(q.z, k[n].z, sum);
        scores[n][h] = fused(q.w, k[n].w, sum);
      }
    }
  }
}

/// Merges the chunks of a row's heads.
INFER_DEVICE void merge_pooled(const PooledAttentionParams& p, uint32_t row, uint32_t first_head,
                               uint32_t heads, uint32_t count) {
  AttentionParams all{};
  all.heads = p.heads;
  all.v_dim = p.v_dim;
  all.chunks = p.chunks;
  all.sinks = p.sinks;
  all.y = p.y;
  all.y_strides = p.y_strides;
  all.results = p.results;
  all.result_runs = p.result_runs;
  merge_chunks(all, row, first_head, heads, count);
}

INFER_KERNEL(pooled_attention, PooledAttentionParams, kPooledThreads, 3) {
  INFER_SHARED(uint64_t, keys, kPageTokens);
  INFER_SHARED(uint64_t, values, kPageTokens);
  INFER_SHARED(uint32_t, transposed, kPageTokens);
  INFER_SHARED(float, weights, kPooledHeads * kPageTokens);
  INFER_SHARED(float, shrinks, kPooledHeads);
  INFER_SHARED(float, mosts, kPooledHeads);  // of a chunk; or what is kept of the merged mix
  INFER_SHARED(float, sums, kPooledHeads);   // of a chunk, or of all; or the chunk's share
  const uint32_t stride = (p.k_dim + 3) / 4 * 4;
  const SharedPtr<float> queries = dynamic_shared<float>(0, kPooledHeads * stride);
  const uint32_t row = block_y();
  if (row >= step_rows(p.step, gpu::kTokenRows)) return;
  const uint32_t first_head = block_x() * kPooledHeads;
  const uint32_t heads =
      first_head + kPooledHeads < p.heads ? kPooledHeads : p.heads - first_head;
  const auto slot = static_cast<uint32_t>(Global<const int32_t>(p.slots)[row]);
  const auto sequence = static_cast<uint32_t>(Global<const int32_t>(p.sequences)[row]);
  const uint32_t begin = slot + 1 > p.window ? slot + 1 - p.window : 0;
  const uint32_t of_window = slot + 1 - begin;
  const uint32_t tokens = p.layers[1].tokens;
  uint32_t blocks = (slot + 1) / tokens;
  if (p.chosen != 0 && blocks > p.chosen_count) blocks = p.chosen_count;
  const uint32_t count = of_window + blocks;
  const uint32_t pages = (count + kPageTokens - 1) / kPageTokens;
  const uint32_t of_chunk = chunk_pages(pages);
  const uint32_t begin_page = p.split != 0 ? block_z() * of_chunk : 0;
  if (begin_page >= pages) return;
  for (uint32_t h = warp(); h < kPooledHeads; h += kPooledWarps) {
    const uint32_t from = place(p.q_strides, first_head + (h < heads ? h : 0), row);
    for (uint32_t i = lane(); i < stride; i += 32) {
      queries[h * stride + i] =
          i < p.k_dim ? Global<const float>(p.q)[from + i] * p.scale : 0.0f;
    }
  }
  // Of the warp's heads: of the chunk, and merged.
  float most[kOwnHeads];
  float sum[kOwnHeads];
  float all_most[kOwnHeads];
  float all_sum[kOwnHeads];
#pragma unroll
  for (uint32_t o = 0; o < kOwnHeads; ++o) {
    const uint32_t h = o * kPooledWarps + warp();
    const bool sink = p.sinks != 0 && h < heads;
    all_most[o] = sink ? Global<const float>(p.sinks)[first_head + h] : -infinity();
    all_sum[o] = sink ? 1.0f : 0.0f;
  }
  float mix[kPooledHeads][4];
  float all_mix[kPooledHeads][4] = {};
  const uint32_t own_element = 4 * thread();
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
      for (uint32_t h = 0; h < kPooledHeads; ++h) {
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e) mix[h][e] = 0;
      }
    }
    const uint32_t start = page * kPageTokens;
    const uint32_t here = count - start < kPageTokens ? count - start : kPageTokens;
    if (thread() < here) {
      const uint32_t i = start + thread();
      const bool near = i < of_window;
      uint32_t of_key = begin + i;
      if (!near) {
        uint32_t block = i - of_window;
        if (p.chosen != 0) {
          block = static_cast<uint32_t>(
              Global<const int32_t>(p.chosen)[uint64_t{row} * p.chosen_stride + block]);
        }
        of_key = (block + 1) * tokens - 1;
      }
      const PooledLayer& layer = p.layers[near ? 0 : 1];
      const PooledPlace at = place_of(p, layer, sequence, of_key);
      keys[thread()] = at.key;
      values[thread()] = at.value;
      transposed[thread()] = layer.k_element;
    }
    sync_block();  // the queries are there, too
    with_type(p.k_type, p.keys_whole, [&](auto type) {
      constexpr uint32_t kType = decltype(type)::kValue;
      for (uint32_t j = warp(); j < here; j += kKeysTogether * kPooledWarps) {
        float scores[kKeysTogether][kPooledHeads] = {};
        add_scores<kType>(p, keys, transposed, j, here, queries, scores);
#pragma unroll
        for (uint32_t n = 0; n < kKeysTogether; ++n) {
#pragma unroll
          for (uint32_t h = 0; h < kPooledHeads; ++h) {
            const float score = warp_sum(scores[n][h]);
            const uint32_t key = j + n * kPooledWarps;
            if (lane() == 0 && key < here) weights[h * kPageTokens + key] = score;
          }
        }
      }
    });
    sync_block();
#pragma unroll
    for (uint32_t o = 0; o < kOwnHeads; ++o) {
      const uint32_t h = o * kPooledWarps + warp();
      float score[2];
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        const uint32_t i = lane() + 32 * j;
        score[j] = i < here ? static_cast<float>(weights[h * kPageTokens + i]) : -infinity();
      }
      const float now = most_of(most[o], warp_max(most_of(score[0], score[1])));
      const float shrink = exp_of(most[o] - now);
      float own = 0;
#pragma unroll
      for (uint32_t j = 0; j < 2; ++j) {
        const uint32_t i = lane() + 32 * j;
        const float weight = i < here ? exp_of(score[j] - now) : 0.0f;
        weights[h * kPageTokens + i] = weight;
        own = own + weight;
      }
      sum[o] = fused(sum[o], shrink, warp_sum(own));
      most[o] = now;
      if (lane() == 0) shrinks[h] = shrink;
    }
    sync_block();
#pragma unroll
    for (uint32_t h = 0; h < kPooledHeads; ++h) {
      const float shrink = shrinks[h];
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) mix[h][e] = mix[h][e] * shrink;
    }
    if (own_element < p.v_dim) {
      with_type(p.v_type, p.values_whole, [&](auto type) {
        constexpr uint32_t kType = decltype(type)::kValue;
        for (uint32_t j = 0; j < here; ++j) {
          const float4 v = four_of<kType>(p.v_type, values[j], own_element, p.v_dim);
#pragma unroll
          for (uint32_t h = 0; h < kPooledHeads; ++h) {
            const float weight = weights[h * kPageTokens + j];
            mix[h][0] = fused(weight, v.x, mix[h][0]);
            mix[h][1] = fused(weight, v.y, mix[h][1]);
            mix[h][2] = fused(weight, v.z, mix[h][2]);
            mix[h][3] = fused(weight, v.w, mix[h][3]);
          }
        }
      });
    }
    const bool ends = page + 1 == next_chunk || page + 1 == pages;
    if (ends) {
#pragma unroll
      for (uint32_t o = 0; o < kOwnHeads; ++o) {
        const uint32_t h = o * kPooledWarps + warp();
        const Merging m = merge(all_most[o], all_sum[o], most[o], sum[o]);
        if (lane() != 0) continue;
        mosts[h] = p.split != 0 ? most[o] : m.keep;
        sums[h] = p.split != 0 ? sum[o] : m.add;
      }
    }
    sync_block();  // what is shared has been read
    if (!ends) continue;
    if (p.split != 0) {
#pragma unroll
      for (uint32_t h = 0; h < kPooledHeads; ++h) {
        if (h >= heads) break;
        const Global<float> to(p.chunks +
                               ((uint64_t{row} * p.heads + first_head + h) * kChunks + block_z()) *
                                   (p.v_dim + 2) * 4);
        if (thread() == 0) {
          to[0] = sums[h];
          to[1] = mosts[h];
        }
#pragma unroll
        for (uint32_t e = 0; e < 4; ++e) {
          if (own_element + e < p.v_dim) to[2 + own_element + e] = mix[h][e];
        }
      }
      const uint32_t chunks = (pages + of_chunk - 1) / of_chunk;
      if (comes_last(p.counters + (uint64_t{row} * grid_x() + block_x()) * 4, chunks)) {
        merge_pooled(p, row, first_head, heads, chunks);
      }
      return;
    }
#pragma unroll
    for (uint32_t h = 0; h < kPooledHeads; ++h) {
      const Merging m{mosts[h], sums[h]};
#pragma unroll
      for (uint32_t e = 0; e < 4; ++e) all_mix[h][e] = merged_mix(all_mix[h][e], mix[h][e], m);
    }
  }
  sync_block();  // the last chunk's shares have been read
#pragma unroll
  for (uint32_t o = 0; o < kOwnHeads; ++o) {
    if (lane() == 0) sums[o * kPooledWarps + warp()] = all_sum[o];
  }
  sync_block();
#pragma unroll
  for (uint32_t h = 0; h < kPooledHeads; ++h) {
    if (h >= heads) break;
    const Global<float> y(p.y + uint64_t{place(p.y_strides, first_head + h, row)} * 4);
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) {
      if (own_element + e < p.v_dim) y[own_element + e] = all_mix[h][e] / sums[h];
    }
  }
}

}  // namespace infer::cuda
