// Weighted sums of the values of a page, added to each query's mix in ascending order of the keys.
#pragma once

#include "backends/cpu/simd/attention/cache_rows.h"
#include "backends/cpu/simd/attention/tiles.h"
#include "backends/cpu/simd/plain.h"

namespace infer::cpu {
namespace {

/// Q queries and values [begin, end), of which x holds the first: what they see in common together,
/// what only some see one by one.
template <int Q, typename T>
void mix_queries(const float* weights, const Matrix<T>& x, int64_t begin, int64_t end,
                 int64_t columns, const Visible* visible, float* mixes, int64_t pad) {
  const auto add = [&](auto rows, int m, int64_t from, int64_t to) {
    from = greater(from, begin);
    to = lesser(to, end);
    if (from >= to) return;
    multiply<decltype(rows)::kCount>(weights + m * kPageTokens + from, kPageTokens,
                                     x.at(from - begin, 0), to - from, columns, mixes + m * pad,
                                     pad);
  };
  int64_t first = 0;
  int64_t last = kPageTokens;
  for (int m = 0; m < Q; ++m) {
    first = greater(first, visible[m].begin);
    last = lesser(last, visible[m].end);
  }
  if (first >= last) first = last = kPageTokens;  // nothing in common
  for (int m = 0; m < Q; ++m) add(Rows<1>(), m, visible[m].begin, lesser(visible[m].end, first));
  add(Rows<Q>(), 0, first, last);
  for (int m = 0; m < Q; ++m) add(Rows<1>(), m, greater(visible[m].begin, last), visible[m].end);
}

void mix_page(const float* weights, int64_t queries, const CacheRows& values,
              const Visible* visible, Visible any, float* slice, float* mixes, int64_t pad) {
  const auto add = [&](const Slice& s, const auto& x, int64_t begin, int64_t end) {
    for_each_tile(queries, [&](auto rows, int64_t m) {
      mix_queries<decltype(rows)::kCount>(weights + m * kPageTokens, x, begin, end,
                                          (s.n + kW - 1) / kW * kW, visible + m,
                                          mixes + m * pad + s.begin, pad);
    });
  };
  // Rows of whole vectors can be read as they are stored.
  if (values.type == DType::f16 && queries <= kTile && values.dim % kW == 0) {
    const Matrix<uint16_t> x{reinterpret_cast<const uint16_t*>(values.data), values.stride / 2};
    for (int64_t j = any.begin; j < any.end; j += kPart) {
      const int64_t end = lesser(j + kPart, any.end);
      fetch(values, j * values.stride, end * values.stride);
      add({0, values.dim}, x.at(j, 0), j, end);
    }
    return;
  }
  for (int64_t begin = 0; begin < values.dim; begin += kAttentionSlice) {
    const Slice s{begin, lesser(kAttentionSlice, values.dim - begin)};
    for (int64_t j = any.begin; j < any.end; j += 8) {  // small parts, as above
      decode(values, j, lesser(j + 8, any.end), s, slice + j * kAttentionSlice);
    }
    add(s, Matrix<float>{slice, kAttentionSlice}, 0, kPageTokens);
  }
}

}  // namespace
}  // namespace infer::cpu
