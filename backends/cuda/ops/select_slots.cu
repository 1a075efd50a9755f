#include "backends/cuda/ops/select_slots.h"

#include "backends/cuda/device/arrival.h"
#include "backends/cuda/device/cache_rows.h"
#include "backends/cuda/device/ranked.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

constexpr uint32_t kSelectWarps = kSelectThreads / 32;
constexpr uint32_t kHeadsTogether = 8;
constexpr uint32_t kBins = 256;

/// The best of what was added, in the order of adding. All threads have the same.
class Best {
 public:
  /// `buffer`: room for `count` and two numbers of each thread at least.
  INFER_DEVICE Best(uint64_t buffer, uint32_t count, uint32_t room)
      : at_(buffer), count_(count), room_(room) {}
  INFER_DEVICE uint32_t size() const { return size_; }
  INFER_DEVICE uint64_t operator[](uint32_t i) const { return at_[i]; }

  /// Each thread adds a number of its own.
  INFER_DEVICE void add(uint64_t number) {
    append(number > least_, number);
    if (size_ + kSelectThreads > room_) trim();
  }

  /// Leaves no more than `count`.
  INFER_DEVICE void trim() {
    if (size_ <= count_) return;
    least_ = least_of_best();
    const uint32_t before = size_;
    size_ = 0;
    for (uint32_t first = 0; first < before; first += kSelectThreads) {
      const uint32_t i = first + thread();
      const uint64_t number = i < before ? at_[i] : 0;
      append(i < before && number >= least_, number);
    }
  }

 private:
  INFER_DEVICE void append(bool taken, uint64_t number) {
    INFER_SHARED(uint32_t, counts, kSelectWarps);
    const uint32_t votes = ballot(taken);
    sync_block();  // those of the call before have been read, and what is at the places of these
    if (lane() == 0) counts[warp()] = bits_set(votes);
    sync_block();
    uint32_t to = size_ + bits_set(votes & ((1u << lane()) - 1));
    for (uint32_t w = 0; w < kSelectWarps; ++w) {
      if (w < warp()) to += counts[w];
      size_ += counts[w];
    }
    if (taken) at_[to] = number;
    sync_block();
  }

  /// The `count`-th largest number, or one that as many are not below: digit by digit.
  INFER_DEVICE uint64_t least_of_best() const {
    INFER_SHARED(uint32_t, bins, kBins);
    uint64_t upper = 0;
    uint32_t wanted = count_;
    for (uint32_t digit = 0; digit < 8; ++digit) {
      const uint32_t shift = 56 - 8 * digit;
      for (uint32_t i = thread(); i < kBins; i += kSelectThreads) bins[i] = 0;
      sync_block();
      for (uint32_t i = thread(); i < size_; i += kSelectThreads) {
        const uint64_t number = at_[i];
        const bool among = digit == 0 || number >> (shift + 8) == upper >> (shift + 8);
        if (among) atomic_add(bins, static_cast<uint32_t>(number >> shift) % kBins, 1);
      }
      sync_block();
      uint32_t bin = kBins - 1;
      while (bins[bin] < wanted) wanted -= bins[bin--];
      const bool exact = bins[bin] == wanted;
      upper |= uint64_t{bin} << shift;
      sync_block();
      if (exact) break;
    }
    return upper;
  }

  Global<uint64_t> at_;
  uint32_t count_, room_;
  uint32_t size_ = 0;
  uint64_t least_ = 0;
};

/// The sum over heads `first`, `first` + 1, … of every `step` of what a key at `row` scores: in
/// runs of kHeadsTogether. Across: the key is every kPageTokens-th element from `row` on.
template <uint32_t kType>
INFER_DEVICE float score(const SelectSlotsParams& p, uint64_t row, uint32_t token, uint32_t r,
                         uint32_t first, uint32_t step) {
  const Global<const float> q(p.q);
  const Global<const float> weights(p.weights);
  float sum = 0;
  for (uint32_t h = first; h < p.heads; h += step) {
    uint32_t at[kHeadsTogether];
    float products[kHeadsTogether];
#pragma unroll
    for (uint32_t j = 0; j < kHeadsTogether; ++j) {
      at[j] = place(p.q_strides, h + j < p.heads ? h + j : h, r);
      products[j] = 0;
    }
    const auto add = [&](uint32_t i, float element) {
#pragma unroll
      for (uint32_t j = 0; j < kHeadsTogether; ++j) {
        products[j] = fused(q[at[j] + i], element, products[j]);
      }
    };
    if (p.across != 0) {
      for (uint32_t i = 0; i < p.dim; ++i) {
        add(i, cache_element(p.k_type, row, i * kPageTokens + token));
      }
    } else {
      for (uint32_t i = 0; i < p.dim; i += 4) {
        const float4 k = four_of<kType>(p.k_type, row, i, p.dim);
        add(i, k.x);
        if (kType != kCacheOdd || i + 1 < p.dim) add(i + 1, k.y);
        if (kType != kCacheOdd || i + 2 < p.dim) add(i + 2, k.z);
        if (kType != kCacheOdd || i + 3 < p.dim) add(i + 3, k.w);
      }
    }
#pragma unroll
    for (uint32_t j = 0; j < kHeadsTogether; ++j) {
      if (h + j < p.heads) {
        const float weight = p.weights != 0 ? weights[r * p.weights_stride + h + j] : 1.0f;
        sum = fused(weight, most_of(products[j], 0.0f), sum);
      }
    }
  }
  return sum;
}

/// Adds the slots whose keys are in runs [begin, end) of a row and that are no later than `last`. A
/// run is of kPageTokens keys.
INFER_DEVICE void add_runs(const SelectSlotsParams& p, uint32_t row, uint32_t last, uint32_t begin,
                           uint32_t end, Best& best) {
  INFER_SHARED(float, halves, 2 * kPageTokens);
  const auto sequence = static_cast<uint32_t>(Global<const int32_t>(p.sequences)[row]);
  const Pages table = pages_of(p.step, p.kind);
  const uint32_t own = thread() % kPageTokens;
  const uint32_t half = thread() / kPageTokens;  // of the heads
  for (uint32_t run = begin; run < end; ++run) {
    const uint32_t slot = (run * kPageTokens + own + 1) * p.block - 1;
    float part = 0;
    if (slot <= last) {
      const uint32_t token = slot % kPageTokens / p.tokens;
      const uint64_t keys = table.of(sequence, slot) + p.k_offset;
      const uint64_t key = p.across != 0 ? keys : keys + token * p.k_row;
      with_type(p.k_type, p.whole, [&](auto type) {
        part = score<decltype(type)::kValue>(p, key, token, row, half * kHeadsTogether,
                                             2 * kHeadsTogether);
      });
    }
    halves[thread()] = part;
    sync_block();
    const float both = halves[own] + halves[kPageTokens + own];
    best.add(half == 0 && slot <= last ? ranked(both, slot) : 0);
  }
}

static_assert(kSelectThreads == 2 * kPageTokens);

/// The product of a head's query, which begins at `query`, and the key at `row`, as score() takes
/// it.
template <uint32_t kType>
INFER_DEVICE float product(const SelectSlotsParams& p, uint64_t row, uint32_t token,
                           const Global<const float>& query) {
  float sum = 0;
  if (p.across != 0) {
    for (uint32_t i = 0; i < p.dim; ++i) {
      sum = fused(query[i], cache_element(p.k_type, row, i * kPageTokens + token), sum);
    }
    return sum;
  }
  for (uint32_t i = 0; i < p.dim; i += 4) {
    const float4 k = four_of<kType>(p.k_type, row, i, p.dim);
    sum = fused(query[i], k.x, sum);
    if (kType != kCacheOdd || i + 1 < p.dim) sum = fused(query[i + 1], k.y, sum);
    if (kType != kCacheOdd || i + 2 < p.dim) sum = fused(query[i + 2], k.z, sum);
    if (kType != kCacheOdd || i + 3 < p.dim) sum = fused(query[i + 3], k.w, sum);
  }
  return sum;
}

/// Adds blocks [begin, end) of a row by the highest score that a head gives to their slots.
INFER_DEVICE void add_blocks(const SelectSlotsParams& p, uint32_t row, uint32_t head,
                             uint32_t begin, uint32_t end, Best& best) {
  INFER_SHARED(float, highest, kSelectWarps);
  const auto sequence = static_cast<uint32_t>(Global<const int32_t>(p.sequences)[row]);
  const Pages table = pages_of(p.step, p.kind);
  const Global<const float> query(p.q + uint64_t{place(p.q_strides, head, row)} * 4);
  for (uint32_t block = begin; block < end; ++block) {
    float own = -infinity();
    for (uint32_t i = thread(); i < p.block; i += kSelectThreads) {
      const uint32_t slot = block * p.block + i;
      const uint32_t token = slot % kPageTokens;
      const uint64_t keys = table.of(sequence, slot) + p.k_offset;
      const uint64_t key = p.across != 0 ? keys : keys + token * p.k_row;
      with_type(p.k_type, p.whole, [&](auto type) {
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

/// kByHead: heads choose for themselves, and the row's own block is always chosen.
template <bool kByHead>
INFER_DEVICE void select(const SelectSlotsParams& p) {
  const uint32_t row = block_y();
  if (row >= step_rows(p.step, gpu::kTokenRows)) return;
  const uint32_t list = kByHead ? block_z() : 0;
  const uint32_t lists = kByHead ? p.heads : 1;
  const auto last = static_cast<uint32_t>(Global<const int32_t>(p.slots)[row]);
  const Global<int32_t> y(p.y + (uint64_t{row} * p.y_stride + list * p.list_stride) * 4);
  const uint32_t most =
      p.numbers != 0 ? p.count : p.count * p.block + p.block - (kByHead ? 0 : 1);
  const uint32_t seen = p.numbers != 0 ? (last + 1) / p.block : last + 1;
  if (seen <= most) {  // it sees all
    if (block_x() > 0) return;
    for (uint32_t i = thread(); i < most; i += kSelectThreads) {
      y[i] = i < seen ? static_cast<int32_t>(i) : -1;
    }
    return;
  }
  const uint32_t blocks = (last + (kByHead ? 0 : 1)) / p.block;
  const uint32_t runs = kByHead ? blocks : (blocks + kPageTokens - 1) / kPageTokens;
  const uint32_t of_part = (runs + grid_x() - 1) / grid_x();
  const uint32_t begin = block_x() * of_part;
  if (begin >= runs) return;
  const uint32_t end = begin + of_part < runs ? begin + of_part : runs;
  const uint32_t buffers = grid_x() == 1 ? 1 : grid_x() + 1;
  const uint64_t own = uint64_t{row} * lists + list;
  const auto buffer = [&](uint32_t i) {
    return p.buffers + (own * buffers + i) * (1 + p.room) * 8;
  };

  Best best(buffer(block_x()) + 8, p.count, p.room);
  if constexpr (kByHead) {
    add_blocks(p, row, list, begin, end, best);
  } else {
    add_runs(p, row, last, begin, end, best);
  }
  best.trim();
  if (grid_x() > 1) {
    if (thread() == 0) Global<uint64_t>(buffer(block_x()))[0] = best.size();
    const uint32_t parts = (runs + of_part - 1) / of_part;
    if (!comes_last(p.counters + own * 4, parts)) return;
    best = Best(buffer(grid_x()) + 8, p.count, p.room);
    for (uint32_t part = 0; part < parts; ++part) {
      const Global<const uint64_t> from(buffer(part));
      const auto size = static_cast<uint32_t>(from[0]);
      for (uint32_t i = 0; i < size; i += kSelectThreads) {
        best.add(i + thread() < size ? from[1 + i + thread()] : 0);
      }
    }
    best.trim();
  }
  if (p.numbers != 0) {
    for (uint32_t i = thread(); i < most; i += kSelectThreads) {
      y[i] = static_cast<int32_t>(place_of_ranked(best[i]) / p.block);
    }
    return;
  }
  const uint32_t tail = blocks * p.block;
  for (uint32_t i = thread(); i < most; i += kSelectThreads) {
    const uint32_t block = i / p.block;
    const uint32_t behind = tail + (i - p.count * p.block);
    int32_t slot = -1;
    if (block < best.size()) {
      const uint32_t end_of_block = place_of_ranked(best[block]);
      slot = static_cast<int32_t>(end_of_block - (p.block - 1 - i % p.block));
    } else if (block >= p.count && behind <= last) {
      slot = static_cast<int32_t>(behind);
    }
    y[i] = slot;
  }
}

INFER_KERNEL(select_slots, SelectSlotsParams, kSelectThreads, 4) { select<false>(p); }
INFER_KERNEL(select_slots_by_head, SelectSlotsParams, kSelectThreads, 4) { select<true>(p); }

}  // namespace infer::cuda
