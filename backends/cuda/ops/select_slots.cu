#include "backends/cuda/ops/select_slots.h"

#include "backends/cuda/device/best.h"
#include "backends/cuda/device/cache_rows.h"
#include "backends/cuda/device/ranked.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

constexpr uint32_t kMergeWarps = kSelectMergeThreads / 32;
constexpr uint32_t kKeysTogether = 4;  // of a thread
constexpr uint32_t kHeadsTogether = kSelectHeads / 2;
static_assert(kSelectThreads * kKeysTogether == 2 * kSelectKeys);

/// Where keys that follow one another are. Across: keys lie so, and all of these in one page.
struct KeysAt {
  uint64_t row[kKeysTogether];
  uint32_t token[kKeysTogether];  ///< across
};

/// Adds to the products of each key with kHeadsTogether queries, which follow one another in shared
/// memory at `stride`.
template <uint32_t kType>
INFER_DEVICE void multiply(const SelectSlotsParams& p, const KeysAt& keys, SharedPtr<float> queries,
                           uint32_t stride, float (&products)[kKeysTogether][kHeadsTogether]) {
  for (uint32_t i = 0; i < p.dim; i += 4) {
    float4 k[kKeysTogether];
#pragma unroll
    for (uint32_t j = 0; j < kKeysTogether; ++j) {
      if (kType == kCacheOdd && p.across != 0) {
        const auto element = [&](uint32_t e) {
          if (i + e >= p.dim) return 0.0f;
          return cache_element(p.k_type, keys.row[j], (i + e) * kPageTokens + keys.token[j]);
        };
        k[j] = {element(0), element(1), element(2), element(3)};
      } else {
        k[j] = four_of<kType>(p.k_type, keys.row[j], i, p.dim);
      }
    }
#pragma unroll
    for (uint32_t h = 0; h < kHeadsTogether; ++h) {
      const float4 q = load_shared<float4>(queries, h * stride + i);
#pragma unroll
      for (uint32_t j = 0; j < kKeysTogether; ++j) {
        float sum = fused(q.x, k[j].x, products[j][h]);
        sum = fused(q.y, k[j].y, sum);
        sum = fused(q.z, k[j].z, sum);
        products[j][h] = fused(q.w, k[j].w, sum);
      }
    }
  }
}

/// Brings `heads` queries of a row, from `first` on, to shared memory: zeros behind the last one and
/// behind the elements of each.
INFER_DEVICE void bring_queries(const SelectSlotsParams& p, uint32_t row, uint32_t first,
                                uint32_t heads, SharedPtr<float> queries, uint32_t stride) {
  const Global<const float> q(p.q);
  for (uint32_t h = warp(); h < heads; h += kSelectWarps) {
    const bool given = first + h < p.heads;
    const uint32_t from = given ? place(p.q_strides, first + h, row) : 0;
    for (uint32_t i = lane(); i < stride; i += 32) {
      queries[h * stride + i] = given && i < p.dim ? q[from + i] : 0.0f;
    }
  }
}

/// Adds the slots whose keys are in tiles [begin, end) of a row, which has `count` keys. The score of
/// a key is the sum over runs of kHeadsTogether heads: every second run, and the others.
INFER_DEVICE void add_tiles(const SelectSlotsParams& p, uint32_t row, uint32_t count,
                            uint32_t begin, uint32_t end, Best& best) {
  INFER_SHARED(float, halves, 2 * kSelectKeys);
  const uint32_t stride = (p.dim + 3) / 4 * 4;
  const SharedPtr<float> queries = dynamic_shared<float>(0, kSelectHeads * stride);
  const auto sequence = static_cast<uint32_t>(Global<const int32_t>(p.sequences)[row]);
  const Global<const float> weights(p.weights);
  const Pages table = pages_of(p.step, p.kind);
  const uint32_t own = thread() % (kSelectThreads / 2) * kKeysTogether;
  const uint32_t half = thread() / (kSelectThreads / 2);
  const auto slot_of = [&](uint32_t key) { return (key + 1) * p.block - 1; };
  for (uint32_t tile = begin; tile < end; ++tile) {
    KeysAt keys;
    float sums[kKeysTogether];
#pragma unroll
    for (uint32_t j = 0; j < kKeysTogether; ++j) {
      const uint32_t key = tile * kSelectKeys + own + j;
      const uint32_t slot = slot_of(key < count ? key : count - 1);
      const uint32_t token = slot % kPageTokens / p.tokens;
      const uint64_t at = table.of(sequence, slot) + p.k_offset;
      keys.row[j] = p.across != 0 ? at : at + token * p.k_row;
      keys.token[j] = token;
      sums[j] = 0;
    }
    for (uint32_t first = 0; first < p.heads; first += kSelectHeads) {
      sync_block();  // the queries before have been read
      bring_queries(p, row, first, kSelectHeads, queries, stride);
      sync_block();
      float products[kKeysTogether][kHeadsTogether] = {};
      with_type(p.k_type, p.across != 0 ? 0 : p.whole, [&](auto type) {
        multiply<decltype(type)::kValue>(p, keys, queries + half * kHeadsTogether * stride, stride,
                                         products);
      });
#pragma unroll
      for (uint32_t h = 0; h < kHeadsTogether; ++h) {
        const uint32_t head = first + half * kHeadsTogether + h;
        if (head >= p.heads) break;
        const float weight = p.weights != 0 ? weights[row * p.weights_stride + head] : 1.0f;
#pragma unroll
        for (uint32_t j = 0; j < kKeysTogether; ++j) {
          sums[j] = fused(weight, most_of(products[j][h], 0.0f), sums[j]);
        }
      }
    }
    store_shared(halves, half * kSelectKeys + own, float4{sums[0], sums[1], sums[2], sums[3]});
    sync_block();
    for (uint32_t first = 0; first < kSelectKeys; first += kSelectThreads) {
      const uint32_t key = tile * kSelectKeys + first + thread();
      const float both = halves[first + thread()] + halves[kSelectKeys + first + thread()];
      best.add(key < count ? ranked(both, slot_of(key)) : 0);
    }
  }
}

/// The product of a head's query, in shared memory, and the key at `row`.
template <uint32_t kType>
INFER_DEVICE float product(const SelectSlotsParams& p, uint64_t row, uint32_t token,
                           SharedPtr<float> query) {
  float sum = 0;
  if (kType == kCacheOdd && p.across != 0) {
    for (uint32_t i = 0; i < p.dim; ++i) {
      sum = fused(query[i], cache_element(p.k_type, row, i * kPageTokens + token), sum);
    }
    return sum;
  }
#pragma unroll 4
  for (uint32_t i = 0; i < p.dim; i += 4) {
    const float4 k = four_of<kType>(p.k_type, row, i, p.dim);
    const float4 q = load_shared<float4>(query, i);
    sum = fused(q.x, k.x, sum);
    sum = fused(q.y, k.y, sum);
    sum = fused(q.z, k.z, sum);
    sum = fused(q.w, k.w, sum);
  }
  return sum;
}

/// Adds blocks [begin, end) of a row by the highest score that a head gives to their slots.
INFER_DEVICE void add_blocks(const SelectSlotsParams& p, uint32_t row, uint32_t head,
                             uint32_t begin, uint32_t end, Best& best) {
  INFER_SHARED(float, highest, kSelectWarps);
  const uint32_t stride = (p.dim + 3) / 4 * 4;
  const SharedPtr<float> query = dynamic_shared<float>(0, stride);
  const auto sequence = static_cast<uint32_t>(Global<const int32_t>(p.sequences)[row]);
  const Pages table = pages_of(p.step, p.kind);
  bring_queries(p, row, head, 1, query, stride);
  sync_block();
  for (uint32_t block = begin; block < end; ++block) {
    float own = -infinity();
    for (uint32_t i = thread(); i < p.block; i += kSelectThreads) {
      const uint32_t slot = block * p.block + i;
      const uint32_t token = slot % kPageTokens;
      const uint64_t keys = table.of(sequence, slot) + p.k_offset;
      const uint64_t key = p.across != 0 ? keys : keys + token * p.k_row;
      with_type(p.k_type, p.across != 0 ? 0 : p.whole, [&](auto type) {
        own = most_of(own, product<decltype(type)::kValue>(p, key, token, query));
      });
    }
    own = warp_max(own);
    if (lane() == 0) highest[warp()] = own;
    sync_block();
    float all = highest[0];
    for (uint32_t w = 1; w < kSelectWarps; ++w) all = most_of(all, highest[w]);
    best.add(thread() == 0 ? ranked(all, (block + 1) * p.block - 1) : 0);
  }
}

/// A list that is made of a row's keys.
struct List {
  uint32_t row, list;
  uint32_t last;    ///< the row's slot
  uint32_t most;    ///< elements
  uint32_t blocks;  ///< that may be chosen
  uint32_t runs;    ///< tiles of their keys; by head the blocks
  uint64_t y;       ///< address

  INFER_DEVICE List(const SelectSlotsParams& p, uint32_t row, uint32_t list)
      : row(row), list(list), last(static_cast<uint32_t>(Global<const int32_t>(p.slots)[row])) {
    most = p.numbers != 0 ? p.count : p.count * p.block + p.block - (p.by_head != 0 ? 0 : 1);
    blocks = (last + (p.by_head != 0 ? 0 : 1)) / p.block;
    runs = p.by_head != 0 ? blocks : (blocks + kSelectKeys - 1) / kSelectKeys;
    y = p.y + (uint64_t{row} * p.y_stride + list * p.list_stride) * 4;
  }

  /// Slots, or blocks, up to the row's own.
  INFER_DEVICE uint32_t seen(const SelectSlotsParams& p) const {
    return p.numbers != 0 ? (last + 1) / p.block : last + 1;
  }
  INFER_DEVICE uint32_t runs_of_part(const SelectSlotsParams& p) const {
    return (runs + p.parts - 1) / p.parts;
  }
  INFER_DEVICE uint64_t buffer(const SelectSlotsParams& p, uint32_t part) const {
    return p.buffers + ((uint64_t{row} * p.lists + list) * p.parts + part) * (1 + p.room) * 8;
  }
  /// Elements of a block that was chosen, and one of them: a slot, or its number.
  INFER_DEVICE uint32_t of_block(const SelectSlotsParams& p) const {
    return p.numbers != 0 ? 1 : p.block;
  }
  INFER_DEVICE int32_t element(const SelectSlotsParams& p, uint32_t end, uint32_t i) const {
    return static_cast<int32_t>(p.numbers != 0 ? end / p.block : end - (p.block - 1 - i));
  }
  /// Writes what stands behind the slots of `chosen` blocks.
  template <uint32_t kThreads>
  INFER_DEVICE void write_rest(const SelectSlotsParams& p, uint32_t chosen) const {
    if (p.numbers != 0) return;
    const Global<int32_t> to(y);
    for (uint32_t i = chosen * p.block + thread(); i < most; i += kThreads) {
      const uint32_t behind = blocks * p.block + (i - p.count * p.block);
      to[i] = i >= p.count * p.block && behind <= last ? static_cast<int32_t>(behind) : -1;
    }
  }
};

/// kByHead: heads choose for themselves, and the row's own block is always chosen.
template <bool kByHead>
INFER_DEVICE void select(const SelectSlotsParams& p) {
  if (block_y() >= step_rows(p.step, gpu::kTokenRows)) return;
  const List list(p, block_y(), kByHead ? block_z() : 0);
  const uint32_t seen = list.seen(p);
  if (seen <= list.most) {  // it sees all
    if (block_x() > 0) return;
    for (uint32_t i = thread(); i < list.most; i += kSelectThreads) {
      Global<int32_t>(list.y)[i] = i < seen ? static_cast<int32_t>(i) : -1;
    }
    return;
  }
  const uint32_t begin = block_x() * list.runs_of_part(p);
  if (begin >= list.runs) return;
  const uint32_t behind = begin + list.runs_of_part(p);
  const uint32_t end = behind < list.runs ? behind : list.runs;
  Best best(list.buffer(p, block_x()) + 8, p.count, p.room);
  if constexpr (kByHead) {
    add_blocks(p, list.row, list.list, begin, end, best);
  } else {
    add_tiles(p, list.row, list.blocks, begin, end, best);
  }
  best.trim();
  if (p.parts > 1) {
    if (thread() == 0) Global<uint64_t>(list.buffer(p, block_x()))[0] = best.size();
    return;
  }
  const uint32_t of_block = list.of_block(p);
  for (uint32_t i = thread(); i < best.size() * of_block; i += kSelectThreads) {
    const uint32_t end_of_block = place_of_ranked(best[i / of_block]);
    Global<int32_t>(list.y)[i] = list.element(p, end_of_block, i % of_block);
  }
  list.write_rest<kSelectThreads>(p, best.size());
}

INFER_KERNEL(select_slots, SelectSlotsParams, kSelectThreads, 4) { select<false>(p); }
INFER_KERNEL(select_slots_by_head, SelectSlotsParams, kSelectThreads, 4) { select<true>(p); }

/// Calls use(number, whether there is one, i) for the numbers of a part, all lanes of a warp together.
template <typename Use>
INFER_DEVICE void each_of_part(uint64_t buffer, uint32_t size, const Use& use) {
  const Global<const uint64_t> numbers(buffer);
#pragma unroll 4
  for (uint32_t first = 0; first < size; first += 32) {
    const uint32_t i = first + lane();
    use(i < size ? numbers[1 + i] : uint64_t{0});
  }
}

INFER_KERNEL(select_slots_merge, SelectSlotsParams, kSelectMergeThreads, 1) {
  if (block_x() >= step_rows(p.step, gpu::kTokenRows)) return;
  const List list(p, block_x(), block_y());
  if (list.seen(p) <= list.most) return;
  const uint32_t parts = (list.runs + list.runs_of_part(p) - 1) / list.runs_of_part(p);
  // Of each part: how many numbers it has, and how many of them are chosen; of those, how many come
  // before.
  INFER_SHARED(uint32_t, sizes, kSelectParts);
  INFER_SHARED(uint32_t, before, kSelectParts);
  for (uint32_t part = thread(); part < parts; part += kSelectMergeThreads) {
    sizes[part] = static_cast<uint32_t>(Global<const uint64_t>(list.buffer(p, part))[0]);
  }
  sync_block();
  const auto each = [&](const auto& use) {
    for (uint32_t part = warp(); part < parts; part += kMergeWarps) {
      each_of_part(list.buffer(p, part), sizes[part], [&](uint64_t number) {
        if (number != 0) use(number);
      });
    }
  };
  const uint64_t least = least_of_best<kSelectMergeThreads>(p.count, each);
  for (uint32_t part = warp(); part < parts; part += kMergeWarps) {
    uint32_t chosen = 0;
    each_of_part(list.buffer(p, part), sizes[part],
                 [&](uint64_t number) { chosen += bits_set(ballot(number >= least)); });
    if (lane() == 0) before[part] = chosen;
  }
  sync_block();
  if (thread() == 0) {
    uint32_t all = 0;
    for (uint32_t part = 0; part < parts; ++part) {
      const uint32_t chosen = before[part];
      before[part] = all;
      all += chosen;
    }
  }
  sync_block();
  const uint32_t of_block = list.of_block(p);
  for (uint32_t part = warp(); part < parts; part += kMergeWarps) {
    uint32_t to = before[part];
    each_of_part(list.buffer(p, part), sizes[part], [&](uint64_t number) {
      for (uint32_t votes = ballot(number >= least); votes != 0; votes &= votes - 1, ++to) {
        const uint32_t end = shuffle(place_of_ranked(number), bits_set((votes & (0u - votes)) - 1));
        for (uint32_t i = lane(); i < of_block; i += 32) {
          Global<int32_t>(list.y)[to * of_block + i] = list.element(p, end, i);
        }
      }
    });
  }
  list.write_rest<kSelectMergeThreads>(p, p.count);
}

}  // namespace infer::cuda
