// How operations share their work among the threads of a call.
#pragma once

#include "backends/cpu/kernels.h"
#include "engine/core/checked.h"
#include "engine/core/thread_pool.h"

namespace infer::cpu {

/// Calls fn(h, r, begin, end) for parts of the rows (h, r) of `desc` that belong to this thread:
/// whole rows where there are enough, else stretches of d0 in multiples of 64 elements.
template <typename Fn>
void for_each_stretch(const CpuCall& call, const TensorDesc& desc, Fn fn) {
  constexpr int64_t kGrain = 64;
  const int64_t stretches = div_ceil(desc.shape[0], kGrain);
  const int64_t rows = desc.shape[1] * desc.shape[2];
  const Range range = split_range(rows * stretches, call.thread, call.threads());
  for (int64_t at = range.begin; at < range.end;) {
    const int64_t row = at / stretches;
    const int64_t first = at % stretches;
    const int64_t last = first + std::min(range.end - at, stretches - first);
    fn(row % desc.shape[1], row / desc.shape[1], first * kGrain,
       std::min(last * kGrain, desc.shape[0]));
    at += last - first;
  }
}

/// Calls fn(h, r) for the whole rows of `desc` that belong to this thread.
template <typename Fn>
void for_each_row(const CpuCall& call, const TensorDesc& desc, Fn fn) {
  const Range range = split_range(desc.shape[1] * desc.shape[2], call.thread, call.threads());
  for (int64_t row = range.begin; row < range.end; ++row) {
    fn(row % desc.shape[1], row / desc.shape[1]);
  }
}

}  // namespace infer::cpu
