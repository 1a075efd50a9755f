// Products of a few rows of floats (queries, or the weights of a page) with a matrix of floats or
// binary16, tile by tile: as many queries at once as the registers can sum.
#pragma once

#include <cstdint>

#include "backends/cpu/simd/vec_impl.h"

namespace infer::cpu {
namespace {

F load_element(const float* x) { return F::load(x); }
F load_element(const uint16_t* x) { return F::load_half(x); }

/// A matrix of floats or binary16, its rows a pitch of elements apart.
template <typename T>
struct Matrix {
  const T* data;
  int64_t pitch;

  Matrix at(int64_t row, int64_t column) const { return {data + row * pitch + column, pitch}; }
};

/// A stretch of V vectors of Q rows: y[m] += Σ_i w[m][i]·x[i], i ascending from 0 to n.
template <int Q, int V, typename T>
void multiply_tile(const float* w, int64_t w_pitch, const Matrix<T>& x, int64_t n, float* y,
                   int64_t y_pitch) {
  F sums[Q][V];
  for (int m = 0; m < Q; ++m) {
    for (int v = 0; v < V; ++v) sums[m][v] = F::load(y + m * y_pitch + v * kW);
  }
  for (int64_t i = 0; i < n; ++i) {
    F a[Q];
    for (int m = 0; m < Q; ++m) a[m] = F::set(w[m * w_pitch + i]);
    for (int v = 0; v < V; ++v) {
      const F b = load_element(x.data + i * x.pitch + v * kW);
      for (int m = 0; m < Q; ++m) sums[m][v] = fma(a[m], b, sums[m][v]);
    }
  }
  for (int m = 0; m < Q; ++m) {
    for (int v = 0; v < V; ++v) sums[m][v].store(y + m * y_pitch + v * kW);
  }
}

/// The same for whole vectors of columns.
template <int Q, typename T>
void multiply(const float* w, int64_t w_pitch, const Matrix<T>& x, int64_t n, int64_t columns,
              float* y, int64_t y_pitch) {
  int64_t c = 0;
  if constexpr (Q == 1) {  // enough sums at once to hide the latency of one
    for (; c + 8 * kW <= columns; c += 8 * kW) {
      multiply_tile<1, 8>(w, w_pitch, x.at(0, c), n, y + c, y_pitch);
    }
  }
  for (; c + 4 * kW <= columns; c += 4 * kW) {
    multiply_tile<Q, 4>(w, w_pitch, x.at(0, c), n, y + c, y_pitch);
  }
  for (; c < columns; c += kW) multiply_tile<Q, 1>(w, w_pitch, x.at(0, c), n, y + c, y_pitch);
}

template <int Q>
struct Rows {
  static constexpr int kCount = Q;
};

/// As many queries at once as the registers can sum: rows of four vectors, one of the operand and
/// as many factors.
constexpr int64_t kTile = kW > 8 ? 6 : 3;

/// Calls fn(Rows<Q>, first) for all queries.
template <typename Fn>
void for_each_tile(int64_t queries, Fn fn) {
  for (int64_t m = 0; m < queries;) {
    const int64_t left = queries - m;
    if (kTile == 6 && left >= 6) {
      fn(Rows<6>(), m);
      m += 6;
    } else if (left >= 3 && left != 4) {
      fn(Rows<3>(), m);
      m += 3;
    } else if (left >= 2) {
      fn(Rows<2>(), m);
      m += 2;
    } else {
      fn(Rows<1>(), m);
      m += 1;
    }
  }
}

}  // namespace
}  // namespace infer::cpu
