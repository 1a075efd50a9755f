// What a kernel of products is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/panel.h"
#include "engine/core/dtype.h"

namespace infer::cpu {

/// Products of interleaved weight rows (packing.h) with 8-bit activations:
///   sums[g][c][r] = dot(row r of group g, column c)
/// w: `groups` groups of `rows` rows of k weights, one after another. `streams`: groups that
/// a kernel may read at once with one column (streams.h), two with a few more; no bit depends on
/// it.
struct RowKernel {
  DType weights;
  int rows;
  void (*run)(const std::byte* w, int64_t groups, int64_t k, const Panel& x, int streams,
              float* sums);
};

}  // namespace infer::cpu
