// Scores of queries against the keys of a page. Keys that lie as rows are turned in slices, so that
// vectors run along the keys; keys that lie across are met as they are stored, or spread to floats.
#pragma once

#include "backends/cpu/simd/attention/cache_rows.h"
#include "backends/cpu/simd/attention/tiles.h"
#include "backends/cpu/simd/plain.h"

namespace infer::cpu {
namespace {

/// A slice of the keys that `any` query sees with the keys along the vectors: x[element][key].
void transpose_keys(const CacheRows& keys, const Slice& slice, Visible any, float* x) {
  float rows[kW * kAttentionSlice];
  for (int64_t j = any.begin / kW * kW; j < any.end; j += kW) {
    const int64_t begin = greater(j, any.begin);
    const int64_t end = lesser(j + kW, any.end);
    if (end - begin < kW) fill(rows, rows + kW * kAttentionSlice, 0.0f);
    decode(keys, begin, end, slice, rows + (begin - j) * kAttentionSlice);
    for (int64_t i = 0; i < slice.n; i += kW) {
      F::transpose(rows + i, kAttentionSlice, x + i * kPageTokens + j, kPageTokens);
    }
  }
}

/// The rows of a page's keys that lie across.
template <typename T>
Matrix<T> rows_across(const CacheRows& keys) {
  return {reinterpret_cast<const T*>(keys.data), kPageTokens};
}

void fetch_across(const CacheRows& keys, int64_t begin, int64_t end) {
  const int64_t row = keys.stride / keys.dim * kPageTokens;
  fetch(keys, begin * row, end * row);
}

/// The same slice of keys that lie across, in binary16 or bfloat16.
void spread_keys(const CacheRows& keys, const Slice& slice, Visible any, float* x) {
  const int64_t begin = any.begin / kW * kW;
  const int64_t end = (any.end + kW - 1) / kW * kW;
  for (int64_t i = 0; i < slice.n; ++i, x += kPageTokens) {
    fetch_across(keys, slice.begin + i, slice.begin + i + 1);
    const uint16_t* row = rows_across<uint16_t>(keys).at(slice.begin + i, 0).data;
    if (keys.type == DType::f16) {
      for (int64_t j = begin; j < end; j += kW) F::load_half(row + j).store(x + j);
    } else {
      bf16_to_f32(x + begin, row + begin, end - begin);
    }
  }
}

/// Scores of what slice.n elements of the queries and of the keys, x[element][key], contribute.
template <typename T>
void add_scores(const float* q, int64_t queries, int64_t dim, const Slice& slice,
                const Matrix<T>& x, const Visible* visible, float* scores) {
  for_each_tile(queries, [&](auto rows, int64_t m) {
    constexpr int kQ = decltype(rows)::kCount;
    int64_t from = kPageTokens;
    int64_t to = 0;
    for (int i = 0; i < kQ; ++i) {
      if (visible[m + i].empty()) continue;
      from = lesser(from, visible[m + i].begin / kW * kW);
      to = greater(to, (visible[m + i].end + kW - 1) / kW * kW);
    }
    multiply<kQ>(q + m * dim + slice.begin, dim, x.at(0, from), slice.n, to - from,
                 scores + m * kPageTokens + from, kPageTokens);
  });
}

void score_page(const float* q, int64_t queries, const CacheRows& keys, const Visible* visible,
                Visible any, float* slice, float* scores) {
  fill(scores, scores + queries * kPageTokens, 0.0f);
  const auto add = [&](const Slice& s, const auto& x) {
    add_scores(q, queries, keys.dim, s, x, visible, scores);
  };
  const bool as_stored =
      keys.across && (keys.type == DType::f32 || (keys.type == DType::f16 && queries <= kTile));
  const int64_t step = as_stored ? kPart : kAttentionSlice;
  for (int64_t begin = 0; begin < keys.dim; begin += step) {
    const Slice s{begin, lesser(step, keys.dim - begin)};
    if (as_stored) {
      fetch_across(keys, begin, begin + s.n);
      if (keys.type == DType::f32) {
        add(s, rows_across<float>(keys).at(begin, 0));
      } else {
        add(s, rows_across<uint16_t>(keys).at(begin, 0));
      }
      continue;
    }
    if (keys.across) {
      spread_keys(keys, s, any, slice);
    } else {
      transpose_keys(keys, s, any, slice);
    }
    add(s, Matrix<float>{slice, kPageTokens});
  }
}

}  // namespace
}  // namespace infer::cpu
