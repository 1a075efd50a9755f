// The kernels of attention_kernels.h, written once over the vector F of an instruction set.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/simd/vec_impl.h"
#include "engine/graph/kv_geometry.h"

namespace infer::cpu {
namespace {

// Templates of the standard library are shared by all files of the program, so none with code of
// its own may be compiled here with this instruction set's flags.
int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }
void fill(float* begin, const float* end, float x) {
  for (; begin < end; ++begin) *begin = x;
}

// ---- rows of the cache -------------------------------------------------------------------------

// As they lie in the cache; engine/quant has the same ones, with code that every instruction set
// shares and that must therefore not be compiled here.
struct StoredQ8_0 {
  uint16_t d;
  int8_t q[32];
};
struct StoredQ4_0 {
  uint16_t d;
  uint8_t q[16];
};

void decode_f16(float* y, const uint16_t* x, int64_t n) {
  int64_t i = 0;
  for (; i + kW <= n; i += kW) F::load_half(x + i).store(y + i);
  if (i < n) f16_to_f32(y + i, x + i, n - i);
}

/// The usual length, known to the compiler.
void decode_f16_slice(float* y, const uint16_t* x, int64_t) {
  for (int64_t i = 0; i < kAttentionSlice; i += kW) F::load_half(x + i).store(y + i);
}

void decode_q8_0(float* y, const StoredQ8_0* blocks, int64_t n) {
  for (int64_t b = 0; b < n / 32; ++b, y += 32) {
    const F d = F::set(half_value(blocks[b].d));
    for (int j = 0; j < 32; j += kW) (F::load_signed_bytes(blocks[b].q + j) * d).store(y + j);
  }
}

void decode_q4_0(float* y, const StoredQ4_0* blocks, int64_t n) {
  constexpr uint64_t kLow = 0x0f0f0f0f0f0f0f0f;
  for (int64_t b = 0; b < n / 32; ++b, y += 32) {
    uint64_t q[2];
    std::memcpy(q, blocks[b].q, sizeof(q));
    const uint64_t levels[4] = {q[0] & kLow, q[1] & kLow, q[0] >> 4 & kLow, q[1] >> 4 & kLow};
    const auto* bytes = reinterpret_cast<const int8_t*>(levels);
    const F d = F::set(half_value(blocks[b].d));
    const F middle = F::set(8);
    for (int j = 0; j < 32; j += kW) ((F::load_signed_bytes(bytes + j) - middle) * d).store(y + j);
  }
}

int64_t stored_bytes(DType type, int64_t n) {
  switch (type) {
    case DType::f32: return n * 4;
    case DType::q8_0: return n / 32 * int64_t{sizeof(StoredQ8_0)};
    case DType::q4_0: return n / 32 * int64_t{sizeof(StoredQ4_0)};
    default: return n * 2;
  }
}

/// Elements of rows of a page: those that a slice holds.
struct Slice {
  int64_t begin;
  int64_t n;
};

/// Asks for bytes [begin, end) of the next page's rows. All calls for a page together ask for the
/// whole of the next one, in its order.
void fetch(const CacheRows& rows, int64_t begin, int64_t end) {
  if (rows.next == nullptr) return;
  for (int64_t i = begin / 64 * 64; i < end; i += 64) __builtin_prefetch(rows.next + i, 0, 2);
}

template <typename Block, typename Fn>
void decode_rows(const CacheRows& rows, int64_t begin, int64_t end, int64_t offset, const Slice& s,
                 float* to, Fn fn) {
  const std::byte* from = rows.data + begin * rows.stride + offset;
  for (int64_t r = begin; r < end; ++r, from += rows.stride, to += kAttentionSlice) {
    fn(to, reinterpret_cast<const Block*>(from), s.n);
    for (int64_t i = s.n; i % kW != 0; ++i) to[i] = 0;
  }
}

/// The slice of rows [begin, end), zeros behind each up to a whole vector.
void decode(const CacheRows& rows, int64_t begin, int64_t end, const Slice& s, float* to) {
  const int64_t share = s.n * rows.stride / rows.dim;  // bytes of a row
  const int64_t before = s.begin * rows.stride / rows.dim * kPageTokens;
  fetch(rows, before + begin * share, before + end * share);
  const int64_t offset = stored_bytes(rows.type, s.begin);
  switch (rows.type) {
    case DType::f32:
      decode_rows<float>(rows, begin, end, offset, s, to, [](float* y, const float* x, int64_t n) {
        std::memcpy(y, x, static_cast<size_t>(n) * sizeof(float));
      });
      break;
    case DType::f16:
      if (s.n == kAttentionSlice) {
        decode_rows<uint16_t>(rows, begin, end, offset, s, to, decode_f16_slice);
      } else {
        decode_rows<uint16_t>(rows, begin, end, offset, s, to, decode_f16);
      }
      break;
    case DType::bf16: decode_rows<uint16_t>(rows, begin, end, offset, s, to, bf16_to_f32); break;
    case DType::q8_0: decode_rows<StoredQ8_0>(rows, begin, end, offset, s, to, decode_q8_0); break;
    default: decode_rows<StoredQ4_0>(rows, begin, end, offset, s, to, decode_q4_0); break;
  }
}

/// The same bytes as the encoder of engine/quant.
void encode_q8_0(const float* x, std::byte* to, int64_t n) {
  auto* blocks = reinterpret_cast<StoredQ8_0*>(to);
  for (int64_t b = 0; b < n / 32; ++b, x += 32) {
    F most = F::zero();
    for (int i = 0; i < 32; i += kW) {
      const F v = F::load(x + i);
      most = F::max(most, F::max(v, F::zero() - v));
    }
    const float wide = most.highest() / 127;
    const float scale = wide < 65504.0f ? wide : 65504.0f;
    f32_to_f16(&blocks[b].d, &scale, 1);
    const float d = half_value(blocks[b].d);
    const F inverse = F::set(d != 0 ? 1 / d : 0);
    float levels[32];
    for (int i = 0; i < 32; i += kW) {
      const F level = F::round(F::load(x + i) * inverse);
      F::min(F::max(level, F::set(-127)), F::set(127)).store(levels + i);
    }
    for (int j = 0; j < 32; ++j) blocks[b].q[j] = static_cast<int8_t>(static_cast<int>(levels[j]));
  }
}

// ---- products ----------------------------------------------------------------------------------

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

// ---- scores ------------------------------------------------------------------------------------

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

/// The same of keys that lie across, in binary16 or bfloat16.
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

/// Stored elements meet queries in small parts, for the sake of the fetches.
constexpr int64_t kPart = 16;

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

// ---- softmax -----------------------------------------------------------------------------------

/// tanh to about one unit in the last place: near zero an odd polynomial (Cephes, Moshier 1992),
/// beyond that 1 − 2/(e^2x + 1).
F tanh(F any) {
  const F x = F::min(F::set(20.0f), F::max(F::set(-20.0f), any));  // lets what is no number through
  const F limit = F::set(0.625f);
  const F size = F::max(x, F::zero() - x);
  const F square = x * x;
  F p = F::set(-5.70498872745e-3f);
  p = fma(p, square, F::set(2.06390887954e-2f));
  p = fma(p, square, F::set(-5.37397155531e-2f));
  p = fma(p, square, F::set(1.33314422036e-1f));
  p = fma(p, square, F::set(-3.33332819422e-1f));
  const F near = fma(p * square, x, x);
  const F one = F::set(1.0f);
  const F far = one - F::set(2.0f) / (exp(size + size) + one);
  // Exactly one of the two sums below is not zero.
  const F signed_far = F::zero_where_below(far, x, F::zero()) -
                       F::zero_where_below(far, F::zero() - x, F::set(1e-30f));
  return F::zero_where_below(signed_far, size, limit) +
         (near - F::zero_where_below(near, size, limit));
}

/// Scores of one query, of which [begin, end) count, to weights; whole vectors are computed, and
/// what does not count weighs nothing.
void soften_query(float* scores, Visible visible, float cap, SoftmaxState& state, float* mix,
                  int64_t pad) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const int64_t begin = visible.begin / kW * kW;
  const int64_t end = (visible.end + kW - 1) / kW * kW;
  if (cap > 0) {
    const F c = F::set(cap);
    for (int64_t j = begin; j < end; j += kW) (c * tanh(F::load(scores + j) / c)).store(scores + j);
  }
  fill(scores + begin, scores + visible.begin, kNever);
  fill(scores + visible.end, scores + end, kNever);
  F bests = F::load(scores + begin);
  for (int64_t j = begin + kW; j < end; j += kW) bests = F::max(bests, F::load(scores + j));
  const float highest = bests.highest();
  const float best = state.best < highest ? highest : state.best;
  // Where every score is −∞ so far, nothing has a weight, and −∞ − (−∞) would be no number.
  const F shift = F::set(best == kNever ? 0.0f : best);
  F sums = F::zero();
  for (int64_t j = begin; j < end; j += kW) {
    const F e = exp(F::load(scores + j) - shift);
    e.store(scores + j);
    sums = sums + e;
  }
  if (best != state.best) {
    const float keep = std::exp(state.best - best);
    if (state.sum != 0) scale_mul(mix, mix, nullptr, keep, pad);
    state.sum *= keep;
    state.best = best;
  }
  state.sum += sums.sum();
}

void soften_page(float* scores, int64_t queries, const Visible* visible, float cap,
                 SoftmaxState* states, float* mixes, int64_t pad) {
  for (int64_t m = 0; m < queries; ++m) {
    if (visible[m].empty()) continue;
    soften_query(scores + m * kPageTokens, visible[m], cap, states[m], mixes + m * pad, pad);
  }
}

// ---- mixes of values ---------------------------------------------------------------------------

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

// ---- rotary positions --------------------------------------------------------------------------

void rope(float* y, const float* x, const float* turn, int64_t pairs, bool interleaved) {
  if (interleaved) {
    for (int64_t p = 0; p < pairs; ++p) {
      y[2 * p] = x[2 * p] * turn[2 * p] - x[2 * p + 1] * turn[2 * p + 1];
      y[2 * p + 1] = x[2 * p] * turn[2 * p + 1] + x[2 * p + 1] * turn[2 * p];
    }
  } else {
    for (int64_t p = 0; p < pairs; ++p) {
      y[p] = x[p] * turn[2 * p] - x[p + pairs] * turn[2 * p + 1];
      y[p + pairs] = x[p] * turn[2 * p + 1] + x[p + pairs] * turn[2 * p];
    }
  }
}

// ---- Hadamard transform ------------------------------------------------------------------------

/// Row j of the Hadamard matrix of as many rows as a vector has lanes.
struct HadamardSigns {
  float row[kW][kW];
};

constexpr HadamardSigns hadamard_signs() {
  HadamardSigns signs{};
  for (int j = 0; j < kW; ++j) {
    for (int i = 0; i < kW; ++i) signs.row[j][i] = __builtin_parity(i & j) == 0 ? 1.0f : -1.0f;
  }
  return signs;
}

constexpr HadamardSigns kHadamardSigns = hadamard_signs();

/// y[i] and y[i + half] become their sum and difference, for 0 ≤ i < half of every 2·half.
void butterflies(float* y, int64_t half, int64_t n) {
  for (int64_t begin = 0; begin < n; begin += 2 * half) {
    for (int64_t i = begin; i < begin + half; i += kW) {
      const F a = F::load(y + i);
      const F b = F::load(y + i + half);
      (a + b).store(y + i);
      (a - b).store(y + i + half);
    }
  }
}

/// H of order n is the Kronecker product of H of order n / kW, which whole vectors pass through in
/// the fast way, and of H of order kW within each vector: a product with a matrix of signs, so that
/// no lane has to change its place.
void hadamard(float* y, const float* x, float scale, int64_t n) {
  if (n < kW) {
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0;
      for (int64_t j = 0; j < n; ++j) sum += kHadamardSigns.row[j][i] * x[j];
      y[i] = sum * scale;
    }
    return;
  }
  for (int64_t i = 0; i < n; i += kW) {
    F sums[2] = {F::zero(), F::zero()};
    for (int j = 0; j < kW; j += 2) {
      for (int s = 0; s < 2; ++s) {
        const F sign = F::load(kHadamardSigns.row[j + s]);
        sums[s] = fma(F::set(x[i + j + s] * scale), sign, sums[s]);
      }
    }
    (sums[0] + sums[1]).store(y + i);
  }
  for (int64_t half = kW; half < n; half *= 2) butterflies(y, half, n);
}

constexpr AttentionOps kAttentionOps{score_page,  soften_page, mix_page,
                                     encode_q8_0, rope,        hadamard};

}  // namespace
}  // namespace infer::cpu
