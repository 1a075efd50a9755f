// The largest of many numbers.
#pragma once

#include "backends/cuda/device/memory.h"
#include "backends/cuda/device/prefix.h"
#include "backends/cuda/ops/select_slots.h"

namespace infer::cuda {

constexpr uint32_t kBins = 256;
constexpr uint32_t kSelectWarps = kSelectThreads / 32;

/// The bin, counted from the highest, that has the `wanted`-th largest number; `wanted` becomes its
/// place among those of the bin. All warps find the same: a lane has eight bins.
INFER_DEVICE uint32_t bin_of(SharedPtr<uint32_t> bins, uint32_t& wanted) {
  constexpr uint32_t kOwn = kBins / 32;
  const uint32_t first = kBins - 1 - lane() * kOwn;
  uint32_t own = 0;
#pragma unroll
  for (uint32_t i = 0; i < kOwn; ++i) own += bins[first - i];
  const uint32_t up_to = warp_sum_up_to(own);
  const uint32_t at = bits_set(~ballot(up_to >= wanted));  // lanes whose bins are all above
  wanted -= shuffle(up_to - own, at);
  uint32_t bin = kBins - 1 - at * kOwn;
  while (bins[bin] < wanted) wanted -= bins[bin--];
  return bin;
}

/// The `wanted`-th largest of numbers that differ, or one that as many are not below: digit by
/// digit. each(use): calls use(number) for those of the thread, and for zeros. No block has fewer
/// other numbers.
template <uint32_t kThreads, typename Each>
INFER_DEVICE uint64_t least_of_best(uint32_t wanted, const Each& each) {
  INFER_SHARED(uint32_t, bins, kBins);
  uint64_t upper = 0;
  for (uint32_t digit = 0; digit < 8; ++digit) {
    const uint32_t shift = 56 - 8 * digit;
    const uint64_t found = digit == 0 ? 0 : ~uint64_t{0} << (shift + 8);  // bits of `upper`
    for (uint32_t i = thread(); i < kBins; i += kThreads) bins[i] = 0;
    sync_block();
    each([&](uint64_t number) {
      const bool among = ((number ^ upper) & found) == 0;
      if (among) atomic_add(bins, static_cast<uint32_t>(number >> shift) % kBins, 1);
    });
    sync_block();
    const uint32_t bin = bin_of(bins, wanted);
    const bool exact = bins[bin] == wanted;
    upper |= uint64_t{bin} << shift;
    sync_block();
    if (exact) break;
  }
  return upper;
}

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
    least_ = least_of_best<kSelectThreads>(count_, [&](const auto& use) {
      for (uint32_t i = thread(); i < size_; i += kSelectThreads) use(at_[i]);
    });
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

  Global<uint64_t> at_;
  uint32_t count_, room_;
  uint32_t size_ = 0;
  uint64_t least_ = 0;
};

}  // namespace infer::cuda
