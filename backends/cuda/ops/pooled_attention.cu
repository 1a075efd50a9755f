#include "backends/cuda/ops/pooled_attention.h"

#include "backends/cuda/device/cache_rows.h"
#include "backends/cuda/device/reduce.h"

namespace infer::cuda {

// 64 keys at a time: those of the window, then those of blocks. Scores: a warp has a quarter of the
// keys, a lane some elements of each. Weights are relative to the largest score so far (Milakov and
// Gimelshein 2018). Values: a thread has four elements. What a head gets does not depend on the
// heads beside it.

constexpr uint32_t kPooledWarps = kPooledThreads / 32;

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

template <uint32_t kType, uint32_t kHeads>
INFER_DEVICE void add_scores(const PooledAttentionParams& p, uint64_t key, bool across,
                             const SharedPtr<float>& query, float (&scores)[kHeads]) {
  for (uint32_t i = 4 * lane(); i < p.k_dim; i += 128) {
    float k[4] = {0, 0, 0, 0};
    if constexpr (kType == kCacheOdd) {
      for (uint32_t e = 0; e < 4 && i + e < p.k_dim; ++e) k[e] = key_element(p, key, across, i + e);
    } else {
      const float4 four = four_of<kType>(p.k_type, key, i, p.k_dim);
      k[0] = four.x;
      k[1] = four.y;
      k[2] = four.z;
      k[3] = four.w;
    }
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) {
      if (kType == kCacheOdd && i + e >= p.k_dim) break;
#pragma unroll
      for (uint32_t h = 0; h < kHeads; ++h) {
        scores[h] = fused(query[(i + e) * kHeads + h], k[e], scores[h]);
      }
    }
  }
}

template <uint32_t kHeads>
INFER_DEVICE void attend(const PooledAttentionParams& p) {
  INFER_SHARED(uint64_t, keys, kPageTokens);
  INFER_SHARED(uint64_t, values, kPageTokens);
  INFER_SHARED(uint32_t, transposed, kPageTokens);
  INFER_SHARED(float, weights, kManyPooledHeads * kPageTokens);
  INFER_SHARED(float, shrinks, kManyPooledHeads);
  INFER_SHARED(float, sums, kManyPooledHeads);
  const SharedPtr<float> query = dynamic_shared<float>(0, kHeads * p.k_dim);
  const uint32_t row = block_y();
  if (row >= step_rows(p.step, gpu::kTokenRows)) return;
  const uint32_t first_head = block_x() * kHeads;
  const uint32_t heads = first_head + kHeads < p.heads ? kHeads : p.heads - first_head;
  const auto slot = static_cast<uint32_t>(Global<const int32_t>(p.slots)[row]);
  const auto sequence = static_cast<uint32_t>(Global<const int32_t>(p.sequences)[row]);
  const uint32_t begin = slot + 1 > p.window ? slot + 1 - p.window : 0;
  const uint32_t of_window = slot + 1 - begin;
  const uint32_t tokens = p.layers[1].tokens;
  uint32_t blocks = (slot + 1) / tokens;
  if (p.chosen != 0 && blocks > p.chosen_count) blocks = p.chosen_count;
  const uint32_t count = of_window + blocks;
  for (uint32_t i = thread(); i < kHeads * p.k_dim; i += kPooledThreads) {
    const uint32_t h = i % kHeads;
    const uint32_t head = first_head + (h < heads ? h : 0);
    query[i] = Global<const float>(p.q)[place(p.q_strides, head, row) + i / kHeads] * p.scale;
  }
  float mix[kHeads][4];
#pragma unroll
  for (uint32_t h = 0; h < kHeads; ++h) {
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) mix[h][e] = 0;
  }
  // Of the heads that the warp has: every kPooledWarps-th.
  constexpr uint32_t kOwnHeads = (kHeads + kPooledWarps - 1) / kPooledWarps;
  float most[kOwnHeads];
  float sum[kOwnHeads];
#pragma unroll
  for (uint32_t o = 0; o < kOwnHeads; ++o) {
    const uint32_t h = o * kPooledWarps + warp();
    const bool sink = p.sinks != 0 && h < heads;
    most[o] = sink ? Global<const float>(p.sinks)[first_head + h] : -infinity();
    sum[o] = sink ? 1.0f : 0.0f;
  }
  const uint32_t own_element = 4 * thread();
  for (uint32_t start = 0; start < count; start += kPageTokens) {
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
      for (uint32_t j = warp(); j < here; j += kPooledWarps) {
        float scores[kHeads];
#pragma unroll
        for (uint32_t h = 0; h < kHeads; ++h) scores[h] = 0;
        add_scores<kType>(p, keys[j], transposed[j] != 0, query, scores);
#pragma unroll
        for (uint32_t h = 0; h < kHeads; ++h) {
          const float score = warp_sum(scores[h]);
          if (lane() == 0) weights[h * kPageTokens + j] = score;
        }
      }
    });
    sync_block();
#pragma unroll
    for (uint32_t o = 0; o < kOwnHeads; ++o) {
      const uint32_t h = o * kPooledWarps + warp();
      if (h >= kHeads) break;
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
    for (uint32_t h = 0; h < kHeads; ++h) {
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
          for (uint32_t h = 0; h < kHeads; ++h) {
            const float weight = weights[h * kPageTokens + j];
            mix[h][0] = fused(weight, v.x, mix[h][0]);
            mix[h][1] = fused(weight, v.y, mix[h][1]);
            mix[h][2] = fused(weight, v.z, mix[h][2]);
            mix[h][3] = fused(weight, v.w, mix[h][3]);
          }
        }
      });
    }
    sync_block();  // what is shared has been read
  }
#pragma unroll
  for (uint32_t o = 0; o < kOwnHeads; ++o) {
    const uint32_t h = o * kPooledWarps + warp();
    if (h < kHeads && lane() == 0) sums[h] = sum[o];
  }
  sync_block();
#pragma unroll
  for (uint32_t h = 0; h < kHeads; ++h) {
    if (h >= heads) break;
    const Global<float> y(p.y + uint64_t{place(p.y_strides, first_head + h, row)} * 4);
#pragma unroll
    for (uint32_t e = 0; e < 4; ++e) {
      if (own_element + e < p.v_dim) y[own_element + e] = mix[h][e] / sums[h];
    }
  }
}

INFER_KERNEL(pooled_attention_few, PooledAttentionParams, kPooledThreads, 4) {
  attend<kFewPooledHeads>(p);
}
INFER_KERNEL(pooled_attention_many, PooledAttentionParams, kPooledThreads, 3) {
  attend<kManyPooledHeads>(p);
}

}  // namespace infer::cuda
