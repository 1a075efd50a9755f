// The float32 primitives, written once over the vectors F and I of the instruction set whose isa.h
// was included before. Everything has internal linkage, because each inclusion is compiled with
// other flags.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/kernels.h"
#include "backends/cpu/simd/plain.h"

namespace infer::cpu {
namespace {

constexpr int kW = F::kWidth;

/// The first `count` < kW elements, zeros behind.
F load_part(const float* x, int64_t count) {
  float part[kW] = {};
  for (int64_t i = 0; i < count; ++i) part[i] = x[i];
  return F::load(part);
}

void store_part(float* y, F v, int64_t count) {
  float part[kW];
  v.store(part);
  for (int64_t i = 0; i < count; ++i) y[i] = part[i];
}

/// As many floats on every instruction set: what is summed over elements has these lanes, and the
/// same order. Element i of a row belongs to lane i % kLanes.
constexpr int kLanes = 16;
constexpr int kParts = kLanes / kW;

struct Lanes {
  F part[kParts];

  static Lanes zero() {
    Lanes lanes;
    for (F& f : lanes.part) f = F::zero();
    return lanes;
  }
  float sum() const {
    F halves[kParts];
    for (int p = 0; p < kParts; ++p) halves[p] = part[p];
    for (int half = kParts / 2; half > 0; half /= 2) {
      for (int p = 0; p < half; ++p) halves[p] = halves[p] + halves[p + half];
    }
    return halves[0].sum();
  }
};

Lanes operator+(const Lanes& a, const Lanes& b) {
  Lanes sum;
  for (int p = 0; p < kParts; ++p) sum.part[p] = a.part[p] + b.part[p];
  return sum;
}

/// The vector at x[i], with zeros from x[n] on.
F load_until(const float* x, int64_t i, int64_t n) {
  return n - i < kW ? load_part(x + i, n - i) : F::load(x + i);
}

/// Weights as they lie in a file, read as floats.
struct FromF32 {
  using Stored = float;
  static F load(const float* p) { return F::load(p); }
};
struct FromF16 {
  using Stored = uint16_t;
  static F load(const uint16_t* p) { return F::load_half(p); }
};
struct FromBf16 {
  using Stored = uint16_t;
  static F load(const uint16_t* p) { return as_float(I::load_words(p) << 16); }
};

/// The first kW elements. If there are only `count` of them, zeros stand behind.
template <typename From>
F load_weights(const typename From::Stored* w, int64_t count) {
  if (count >= kW) return From::load(w);
  typename From::Stored part[kW] = {};
  std::memcpy(part, w, static_cast<size_t>(count) * sizeof(part[0]));
  return From::load(part);
}

/// y[c·pitch + r] = Σ w[r]·x[c] for R rows and C columns at once. Each sum runs along its own lanes
/// in one order, whatever R and C are.
template <typename From, int R, int C>
void dot_tile(const typename From::Stored* w, int64_t stride, int64_t n, const float* const* x,
              float* y, int64_t pitch) {
  // With narrow vectors the registers sum some of the lanes at a time: over stretches of elements
  // that stay in the first-level cache until all lanes are summed.
  constexpr int kAtOnce = R * C * kParts <= 12 ? kParts : 1;
  constexpr int64_t kStretch = 1024;
  Lanes sums[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) sums[r][c] = Lanes::zero();
  }
  for (int64_t begin = 0; begin < n;) {
    const int64_t end = kAtOnce == kParts || n - begin < kStretch ? n : begin + kStretch;
    for (int first = 0; first < kParts; first += kAtOnce) {
      F part[R][C][kAtOnce];
      const auto each = [&](auto fn) __attribute__((always_inline)) {
        for (int r = 0; r < R; ++r) {
          for (int c = 0; c < C; ++c) {
            for (int p = 0; p < kAtOnce; ++p) fn(part[r][c][p], sums[r][c].part[first + p]);
          }
        }
      };
      const auto add = [&](int p, int64_t i, auto row_at, auto column_at)
          __attribute__((always_inline)) {
        F rows[R];
        for (int r = 0; r < R; ++r) rows[r] = row_at(w + r * stride + i);
        for (int c = 0; c < C; ++c) {
          const F column = column_at(x[c] + i);
          for (int r = 0; r < R; ++r) part[r][c][p] = fma(rows[r], column, part[r][c][p]);
        }
      };
      each([](F& own, const F& sum) { own = sum; });
      int64_t i = begin + first * kW;
      for (; i + kAtOnce * kW <= end; i += kLanes) {
        for (int p = 0; p < kAtOnce; ++p) add(p, i + p * kW, From::load, F::load);
      }
      for (int p = 0; p < kAtOnce && i + p * kW < end; ++p) {
        const int64_t left = end - i - p * kW;
        add(
            p, i + p * kW,
            [left](const typename From::Stored* from) { return load_weights<From>(from, left); },
            [left](const float* from) { return load_weights<FromF32>(from, left); });
      }
      each([](const F& own, F& sum) { sum = own; });
    }
    begin = end;
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) y[c * pitch + r] = sums[r][c].sum();
  }
}

/// Columns of a tile: as many as the registers can sum for four rows.
constexpr int kDotColumns = kW == 16 ? 6 : 3;

/// `columns` ≤ C columns.
template <typename From, int R, int C = kDotColumns>
void dot_columns(const typename From::Stored* w, int64_t stride, int64_t n, const float* const* x,
                 int64_t columns, float* y, int64_t pitch) {
  if constexpr (C > 1) {
    if (columns < C) return dot_columns<From, R, C - 1>(w, stride, n, x, columns, y, pitch);
  }
  dot_tile<From, R, C>(w, stride, n, x, y, pitch);
}

template <typename From, int R>
void dot_strip(const typename From::Stored* w, int64_t stride, int64_t n, const float* const* x,
               int64_t columns, float* y, int64_t pitch) {
  for (int64_t c = 0; c < columns; c += kDotColumns) {
    dot_columns<From, R>(w, stride, n, x + c, lesser(kDotColumns, columns - c), y + c * pitch,
                         pitch);
  }
}

/// Lane L of Lanes::sum(), of kW rows and C columns at once: lanes are added by halves.
/// turned: element i of the rows at i·kLanes.
template <int kStep, int C>
[[gnu::always_inline]] inline void add_lanes(const float* turned, int64_t n, const float* const* x,
                                             int64_t lane, F* sums) {
  if constexpr (kStep == kLanes) {
    for (int c = 0; c < C; ++c) sums[c] = F::zero();
    for (int64_t i = lane; i < n; i += kLanes) {
      const F rows = F::load(turned + i * kLanes);
      for (int c = 0; c < C; ++c) sums[c] = fma(rows, F::set(x[c][i]), sums[c]);
    }
  } else {
    F others[C];
    add_lanes<2 * kStep, C>(turned, n, x, lane, sums);
    add_lanes<2 * kStep, C>(turned, n, x, lane + kStep, others);
    for (int c = 0; c < C; ++c) sums[c] = sums[c] + others[c];
  }
}

/// dot_rows() of kLanes rows that were turned, whose lanes are the rows.
template <int C>
void dot_turned(const float* turned, int64_t n, const float* const* x, float* y, int64_t pitch) {
  for (int p = 0; p < kParts; ++p) {
    F sums[C];
    add_lanes<1, C>(turned + p * kW, n, x, 0, sums);
    for (int c = 0; c < C; ++c) sums[c].store(y + c * pitch + p * kW);
  }
}

/// kLanes short rows: a sum across a vector takes longer than the products of such a row.
template <typename From>
void dot_short(const typename From::Stored* w, int64_t stride, int64_t n, const float* const* x,
               int64_t columns, float* y, int64_t pitch) {
  float turned[kShortRow * kLanes];
  for (int64_t i = 0; i < n; i += kW) {
    for (int64_t r = 0; r < kLanes; r += kW) {
      float rows[kW * kW];
      for (int64_t j = 0; j < kW; ++j) {
        load_weights<From>(w + (r + j) * stride + i, n - i).store(rows + j * kW);
      }
      F::transpose(rows, kW, turned + i * kLanes + r, kLanes);
    }
  }
  constexpr int kAtOnce = kW == 16 ? 4 : 2;
  int64_t c = 0;
  for (; c + kAtOnce <= columns; c += kAtOnce) {
    dot_turned<kAtOnce>(turned, n, x + c, y + c * pitch, pitch);
  }
  for (; c < columns; ++c) dot_turned<1>(turned, n, x + c, y + c * pitch, pitch);
}

template <typename From>
void dot_rows_of(const void* weights, int64_t stride, int64_t rows, int64_t n,
                 const float* const* x, int64_t columns, float* y, int64_t pitch) {
  const auto* w = static_cast<const typename From::Stored*>(weights);
  int64_t r = 0;
  if (n <= kShortRow && columns > 2) {
    for (; r + kLanes <= rows; r += kLanes) {
      dot_short<From>(w + r * stride, stride, n, x, columns, y + r, pitch);
    }
  }
  // One or two columns wait for the weights, which come faster from memory in one stream than in
  // four.
  if (columns > 2) {
    for (; r + 4 <= rows; r += 4) {
      dot_strip<From, 4>(w + r * stride, stride, n, x, columns, y + r, pitch);
    }
  }
  for (; r < rows; ++r) {
    dot_strip<From, 1>(w + r * stride, stride, n, x, columns, y + r, pitch);
  }
}

/// For more columns, weights of F16 and BF16 are better decoded once than with each of their tiles.
constexpr int64_t kMostConverted = kW == 16 ? std::numeric_limits<int64_t>::max() : 16;

void dot_rows(DType type, const void* w, int64_t stride, int64_t rows, int64_t n,
              const float* const* x, int64_t columns, float* y, int64_t pitch) {
  switch (type) {
    case DType::f16: dot_rows_of<FromF16>(w, stride, rows, n, x, columns, y, pitch); break;
    case DType::bf16: dot_rows_of<FromBf16>(w, stride, rows, n, x, columns, y, pitch); break;
    default: dot_rows_of<FromF32>(w, stride, rows, n, x, columns, y, pitch); break;
  }
}

float sum_squares(const float* x, int64_t n) {
  constexpr int kStretches = 4;  // independent chains
  Lanes sums[kStretches];
  for (Lanes& sum : sums) sum = Lanes::zero();
  const auto add = [&](int s, int p, F v) __attribute__((always_inline)) {
    sums[s].part[p] = fma(v, v, sums[s].part[p]);
  };
  int64_t i = 0;
  for (; i + kStretches * kLanes <= n; i += kStretches * kLanes) {
    for (int s = 0; s < kStretches; ++s) {
      for (int p = 0; p < kParts; ++p) add(s, p, F::load(x + i + s * kLanes + p * kW));
    }
  }
  for (int v = 0; i < n; ++v, i += kW) add(v / kParts, v % kParts, load_until(x, i, n));
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])).sum();
}

/// Applies f to whole vectors and to the rest; f maps element vectors to a vector.
template <typename Fn, typename... In>
[[gnu::always_inline]] inline void map(float* y, int64_t n, Fn f, const In*... in) {
  int64_t i = 0;
  for (; i + kW <= n; i += kW) f(F::load(in + i)...).store(y + i);
  if (i < n) store_part(y + i, f(load_part(in + i, n - i)...), n - i);
}

void scale_mul(float* y, const float* x, const float* w, float scale, int64_t n) {
  const F s = F::set(scale);
  if (w == nullptr) {
    map(
        y, n, [s](F a) { return a * s; }, x);
  } else {
    map(
        y, n, [s](F a, F b) { return a * s * b; }, x, w);
  }
}

void add_scaled(float* y, const float* a, const float* b, float scale, int64_t n) {
  const F s = F::set(scale);
  map(
      y, n, [s](F u, F v) { return fma(s, v, u); }, a, b);
}

void axpy(float* y, float a, const float* x, int64_t n) {
  const F s = F::set(a);
  map(
      y, n, [s](F u, F v) { return fma(s, v, u); }, static_cast<const float*>(y), x);
}

float max(const float* x, int64_t n) {
  float best = x[0];
  int64_t i = 0;
  if (n >= kW) {
    F bests = F::load(x);
    for (i = kW; i + kW <= n; i += kW) bests = F::max(bests, F::load(x + i));
    best = bests.highest();
  }
  for (; i < n; ++i) best = x[i] > best ? x[i] : best;
  return best;
}

/// e^x to about one unit in the last place: 2^n·e^r with |r| ≤ ln2/2 and a polynomial for e^r
/// (Cephes, Moshier 1992). Below −87 the result is 0, above 88 it saturates; of what is no number
/// it is none either, since min and max give their second argument then.
F exp(F x) {
  const F lowest = F::set(-87.3f);
  const F clamped = F::min(F::set(88.3f), F::max(lowest, x));
  const F n = F::round(clamped * F::set(1.44269504088896341f));
  F r = fma(n, F::set(-0.693359375f), clamped);
  r = fma(n, F::set(2.12194440e-4f), r);
  F p = F::set(1.9875691500e-4f);
  p = fma(p, r, F::set(1.3981999507e-3f));
  p = fma(p, r, F::set(8.3334519073e-3f));
  p = fma(p, r, F::set(4.1665795894e-2f));
  p = fma(p, r, F::set(1.6666665459e-1f));
  p = fma(p, r, F::set(5.0000001201e-1f));
  const F e = fma(p, r * r, r + F::set(1.0f));
  return F::zero_where_below(e * F::pow2(n), x, lowest);
}

float exp_sum(float* x, float shift, int64_t n) {
  const F s = F::set(shift);
  Lanes sum = Lanes::zero();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int p = 0; p < kParts; ++p) {
      const F e = exp(F::load(x + i + p * kW) - s);
      e.store(x + i + p * kW);
      sum.part[p] = sum.part[p] + e;
    }
  }
  for (int p = 0; i < n; ++p, i += kW) {
    const int64_t count = n - i < kW ? n - i : kW;
    store_part(x + i, exp(load_until(x, i, n) - s), count);
    sum.part[p] = sum.part[p] + load_until(x, i, n);
  }
  return sum.sum();
}

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

void softcap(float* y, const float* x, float cap, int64_t n) {
  const F c = F::set(cap);
  map(
      y, n, [c](F v) { return c * tanh(v / c); }, x);
}

F sigmoid(F x) { return F::set(1.0f) / (F::set(1.0f) + exp(F::zero() - x)); }

/// x·Φ(x) = max(x, 0) − |x|·Φ(−|x|). The tail is Φ(−a) = e^(−a²/2)·t·p(t) with t = 1/(1 + 0.35·a);
/// p is the Chebyshev fit of degree 8 for 0 ≤ a ≤ 13.5, which is within 4·10⁻⁸ of it (relative).
/// For larger a the exponential is 0.
F gelu_of(F x) {
  constexpr float kFit[] = {0.13962199f, 0.13984953f,  0.11993886f, 0.10501996f,  -0.021789605f,
                            0.15701607f, -0.25362146f, 0.14286495f, -0.028900336f};
  const F a = F::max(x, F::zero() - x);
  const F t = F::set(1.0f) / fma(a, F::set(0.35f), F::set(1.0f));
  F p = F::set(kFit[8]);
  for (int i = 7; i >= 0; --i) p = fma(p, t, F::set(kFit[i]));
  const F tail = exp(a * a * F::set(-0.5f)) * t * p;
  return F::max(F::zero(), x) - a * tail;
}

/// ½(1 + tanh z) = σ(2z)
F gelu_tanh(F x) {
  const F cube = x * x * x;
  return x * sigmoid(fma(cube, F::set(0.044715f), x) * F::set(1.5957691216057308f));
}

void gelu(float* y, const float* x, op::Gelu::Kind kind, int64_t n) {
  switch (kind) {
    case op::Gelu::Kind::exact:
      return map(
          y, n, [](F v) { return gelu_of(v); }, x);
    case op::Gelu::Kind::tanh:
      return map(
          y, n, [](F v) { return gelu_tanh(v); }, x);
    case op::Gelu::Kind::sigmoid:
      return map(
          y, n, [](F v) { return v * sigmoid(v * F::set(1.702f)); }, x);
  }
}

/// log(1 + u) for 0 ≤ u ≤ 1, which is 2·atanh(s) of s = u / (2 + u): s times the series of
/// 2·s^(2i) / (2i + 1), whose rest is below 3·10⁻⁹ of it since s is at most 1/3.
F log1p_of(F u) {
  constexpr int kTerms = 8;
  const F s = u / (F::set(2.0f) + u);
  const F square = s * s;
  F sum = F::set(2.0f / (2 * kTerms - 1));
  for (int i = kTerms - 2; i >= 0; --i) {
    sum = fma(sum, square, F::set(2.0f / static_cast<float>(2 * i + 1)));
  }
  return s * sum;
}

/// log(1 + e^x).
F softplus(F x) {
  const F size = F::max(x, F::zero() - x);
  return F::max(x, F::zero()) + log1p_of(exp(F::zero() - size));
}

void glu(float* y, const float* gate, const float* up, const op::Glu& params, int64_t n) {
  switch (params.kind) {
    case op::Glu::Kind::silu:
      map(
          y, n, [](F g, F u) { return g * sigmoid(g) * u; }, gate, up);
      break;
    case op::Glu::Kind::gelu_tanh:
      map(
          y, n, [](F g, F u) { return gelu_tanh(g) * u; }, gate, up);
      break;
    case op::Glu::Kind::gelu:
      map(
          y, n, [](F g, F u) { return gelu_of(g) * u; }, gate, up);
      break;
    case op::Glu::Kind::swiglu_oai: {
      const F limit = F::set(params.limit);
      const F lower = F::set(-params.limit);
      const F alpha = F::set(params.alpha);
      map(
          y, n,
          [=](F g, F u) {
            const F a = F::min(g, limit);
            const F b = F::min(F::max(u, lower), limit);
            return a * sigmoid(a * alpha) * (b + F::set(1.0f));
          },
          gate, up);
      break;
    }
    case op::Glu::Kind::sigmoid:
      map(
          y, n, [](F g, F u) { return sigmoid(g) * u; }, gate, up);
      break;
    case op::Glu::Kind::relu:
      // max gives its second argument for what is no number.
      map(
          y, n, [](F g, F u) { return F::max(F::zero(), g) * u; }, gate, up);
      break;
    case op::Glu::Kind::bilinear:
      map(
          y, n, [](F g, F u) { return g * u; }, gate, up);
      break;
    case op::Glu::Kind::softplus:
      map(
          y, n, [](F g, F u) { return softplus(g) * u; }, gate, up);
      break;
  }
}

/// One binary16, in all lanes.
F half_value(uint16_t h) { return half_low(I::set(h)); }

/// Whole vectors of f, then the last n % kW elements by way of a padded buffer.
template <typename To, typename From, typename Fn>
void convert(To* y, const From* x, int64_t n, Fn f) {
  int64_t i = 0;
  for (; i + kW <= n; i += kW) f(x + i, y + i);
  if (i == n) return;
  From in[kW] = {};
  To out[kW];
  std::memcpy(in, x + i, static_cast<size_t>(n - i) * sizeof(From));
  f(in, out);
  std::memcpy(y + i, out, static_cast<size_t>(n - i) * sizeof(To));
}

void f16_to_f32(float* y, const uint16_t* x, int64_t n) {
  convert(y, x, n, [](const uint16_t* from, float* to) { F::load_half(from).store(to); });
}

void f32_to_f16(uint16_t* y, const float* x, int64_t n) {
  convert(y, x, n, [](const float* from, uint16_t* to) { F::load(from).store_half(to); });
}

void bf16_to_f32(float* y, const uint16_t* x, int64_t n) {
  convert(y, x, n, [](const uint16_t* from, float* to) { FromBf16::load(from).store(to); });
}

void quantise(const float* x, int64_t k, const Panel& panel, int64_t column) {
  constexpr int kHalf = 16 / kW;       // vectors in half a chunk
  constexpr float kSmallest = 1e-35f;  // the inverse of less is infinite
  for (int64_t i = 0; i < k / 32; ++i, x += 32) {
    const PanelChunk chunk(panel, i);
    F v[2 * kHalf];
    F most = F::zero();
    F none = F::zero();  // stays 0 unless something is infinite or no number
    for (int j = 0; j < 2 * kHalf; ++j) {
      v[j] = F::load(x + j * kW);
      most = F::max(most, F::abs(v[j]));
      none = fma(v[j], F::zero(), none);
    }
    float amax = most.highest();
    if (amax < kSmallest) amax = 0;
    float scale = amax / 127.0f;
    F inverse = F::set(amax > 0 ? 127.0f / amax : 0.0f);
    if (none.sum() != 0) {  // the results shall be no numbers either
      scale = std::numeric_limits<float>::quiet_NaN();
      inverse = F::zero();
      for (F& f : v) f = F::zero();
    }
    float sums[2];
    for (int half = 0; half < 2; ++half) {
      F sum = F::zero();
      for (int j = half * kHalf; j < (half + 1) * kHalf; ++j) {
        const F q = F::round(v[j] * inverse);
        to_int(q).store_bytes(chunk.q(column) + j * kW);
        sum = sum + q;
      }
      sums[half] = sum.sum();
      chunk.sums(column)[half] = static_cast<int16_t>(sums[half]);
    }
    *chunk.d(column) = scale;
    *chunk.s(column) = scale * (sums[0] + sums[1]);
    *chunk.negated_sum(column) = -static_cast<int32_t>(sums[0] + sums[1]);
  }
}

}  // namespace
}  // namespace infer::cpu
