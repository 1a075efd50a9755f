#include "backends/cuda/ops/select_slots.h"

#include "backends/cuda/device/best.h"
#include "backends/cuda/device/cache_rows.h"
#include "backends/cuda/device/prefix.h"
#include "backends/cuda/device/ranked.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

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

/// Brings `heads` queries of a row, from `first` on, to shared memory: zeros behind the last one
/// and behind the elements of each.
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

/// Adds the slots whose keys are in tiles [begin, end) of a row, which has `count` keys. The score
/// of a key is the sum over runs of kHeadsTogether heads: every second run, and the others.
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

/// Numbers that follow one another, of which a warp goes through [begin, end).
struct Stretch {
  uint64_t at;
  uint32_t begin, end;

  /// Calls use(number) for each, all lanes of a warp together; 0: the lane has none. So many loads
  /// of a lane are under way at once.
  template <typename Use>
  INFER_DEVICE void each(const Use& use) const {
    constexpr uint32_t kLoads = 8;
    const Global<const uint64_t> all(at);
    for (uint32_t first = begin; first < end; first += kLoads * 32) {
      uint64_t numbers[kLoads];
#pragma unroll
      for (uint32_t j = 0; j < kLoads; ++j) {
        const uint32_t i = first + j * 32 + lane();
        numbers[j] = all[i < end ? i : end - 1];
      }
#pragma unroll
      for (uint32_t j = 0; j < kLoads; ++j) {
        use(first + j * 32 + lane() < end ? numbers[j] : uint64_t{0});
      }
    }
  }
};

/// Calls put(i, number) for the `count` largest numbers of all warps' stretches, in their order;
/// for all, if there are no more. Returns how many.
template <typename Put>
INFER_DEVICE uint32_t put_best(const Stretch& own, uint32_t count, const Put& put) {
  const uint32_t all = sum_before(lane() == 0 ? own.end - own.begin : 0).all;
  uint64_t least = 1;
  if (all > count) {
    least = least_of_best<kSelectMergeThreads>(count, [&](const auto& use) { own.each(use); });
  }
  uint32_t chosen = 0;
  own.each([&](uint64_t number) { chosen += bits_set(ballot(number >= least)); });
  const SumBefore before = sum_before(lane() == 0 ? chosen : 0);
  uint32_t to = shuffle(before.before, 0);
  own.each([&](uint64_t number) {
    const bool taken = number >= least;
    const uint32_t votes = ballot(taken);
    if (taken) put(to + bits_set(votes & ((1u << lane()) - 1)), number);
    to += bits_set(votes);
  });
  return before.all;
}

INFER_KERNEL(select_slots_merge, SelectMergeParams, kSelectMergeThreads, 1) {
  const SelectSlotsParams& select = p.select;
  if (block_x() >= step_rows(select.step, gpu::kTokenRows)) return;
  const List list(select, block_x(), block_y());
  if (list.seen(select) <= list.most) return;
  const uint32_t runs = list.runs_of_part(select) * p.joined;
  const uint32_t given = (list.runs + runs - 1) / runs;
  const uint32_t first = block_z() * kSelectTogether;
  if (first >= given) return;
  const uint32_t parts = given - first < kSelectTogether ? given - first : kSelectTogether;
  // Each part has as many warps; those behind have nothing.
  const uint32_t warps = kSelectMergeThreads / 32 / parts;
  const uint64_t lists = uint64_t{list.row} * select.lists + list.list;
  Stretch own{0, 0, 0};
  if (warp() < warps * parts) {
    const uint64_t at = p.from + (lists * p.parts + first + warp() / warps) * (1 + p.room) * 8;
    const auto size = static_cast<uint32_t>(Global<const uint64_t>(at)[0]);
    const uint32_t of_warp = (size + warps - 1) / warps;
    const uint32_t begin = warp() % warps * of_warp;
    own = {at + 8, begin < size ? begin : size, begin + of_warp < size ? begin + of_warp : size};
  }
  if (p.to != 0) {
    const Global<uint64_t> to(p.to + (lists * p.groups + block_z()) * (1 + select.count) * 8);
    const uint32_t chosen =
        put_best(own, select.count, [&](uint32_t i, uint64_t number) { to[1 + i] = number; });
    if (thread() == 0) to[0] = chosen;
    return;
  }
  const uint32_t of_block = list.of_block(select);
  const Global<int32_t> y(list.y);
  put_best(own, select.count, [&](uint32_t i, uint64_t number) {
    for (uint32_t e = 0; e < of_block; ++e) {
      y[i * of_block + e] = list.element(select, place_of_ranked(number), e);
    }
  });
  list.write_rest<kSelectMergeThreads>(select, select.count);
}

}  // namespace infer::cuda
