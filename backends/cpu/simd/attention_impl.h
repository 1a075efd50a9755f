// The kernels of attention_kernels.h, written once over the vector type F. Included after
// vec_impl.h and the conversions f16_to_f32 and bf16_to_f32 of an instruction set, whose F has
// besides:
//   static F sums(const F* v): element i is the sum of the elements of v[i], 0 ≤ i < kWidth, added
//   up in the same order for every i.
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/attention_kernels.h"
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

void decode_q8_0(float* y, const StoredQ8_0* blocks, int64_t n) {
  for (int64_t b = 0; b < n / 32; ++b, y += 32) {
    float d = 0;
    f16_to_f32(&d, &blocks[b].d, 1);
    for (int j = 0; j < 32; ++j) y[j] = static_cast<float>(blocks[b].q[j]) * d;
  }
}

void decode_q4_0(float* y, const StoredQ4_0* blocks, int64_t n) {
  for (int64_t b = 0; b < n / 32; ++b, y += 32) {
    float d = 0;
    f16_to_f32(&d, &blocks[b].d, 1);
    for (int j = 0; j < 16; ++j) y[j] = static_cast<float>((blocks[b].q[j] & 15) - 8) * d;
    for (int j = 0; j < 16; ++j) y[j + 16] = static_cast<float>((blocks[b].q[j] >> 4) - 8) * d;
  }
}

bool decode_rows(DType type, const std::byte* from, int64_t stride, int64_t rows, int64_t n,
                 float* to, int64_t pad) {
  for (int64_t r = 0; r < rows; ++r, from += stride, to += pad) {
    switch (type) {
      case DType::f32: std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float)); break;
      case DType::f16: f16_to_f32(to, reinterpret_cast<const uint16_t*>(from), n); break;
      case DType::bf16: bf16_to_f32(to, reinterpret_cast<const uint16_t*>(from), n); break;
      case DType::q8_0: decode_q8_0(to, reinterpret_cast<const StoredQ8_0*>(from), n); break;
      case DType::q4_0: decode_q4_0(to, reinterpret_cast<const StoredQ4_0*>(from), n); break;
      default: return false;
    }
    fill(to + n, to + pad, 0.0f);
  }
  return true;
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
    float d = 0;
    f16_to_f32(&d, &blocks[b].d, 1);
    const F inverse = F::set(d != 0 ? 1 / d : 0);
    float levels[32];
    for (int i = 0; i < 32; i += kW) {
      const F level = F::round(F::load(x + i) * inverse);
      F::min(F::max(level, F::set(-127)), F::set(127)).store(levels + i);
    }
    for (int j = 0; j < 32; ++j) blocks[b].q[j] = static_cast<int8_t>(static_cast<int>(levels[j]));
  }
}

// ---- scores ------------------------------------------------------------------------------------

/// Q queries against four keys: scores[m][0..4).
template <int Q>
void score_tile(const float* q, const float* keys, int64_t pad, float* scores) {
  constexpr int kSums = (Q * 4 + kW - 1) / kW * kW;
  F sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = F::zero();
  for (int64_t i = 0; i < pad; i += kW) {
    F x[Q];
    for (int m = 0; m < Q; ++m) x[m] = F::load(q + m * pad + i);
    for (int j = 0; j < 4; ++j) {
      const F key = F::load(keys + j * pad + i);
      for (int m = 0; m < Q; ++m) sums[m * 4 + j] = fma(x[m], key, sums[m * 4 + j]);
    }
  }
  float out[kSums];
  for (int i = 0; i < kSums; i += kW) F::sums(sums + i).store(out + i);
  for (int m = 0; m < Q; ++m) std::memcpy(scores + m * kPageTokens, out + m * 4, 4 * sizeof(float));
}

template <int Q>
void score_queries(const float* q, const float* keys, int64_t pad, const Visible* visible,
                   int64_t first, float* scores) {
  int64_t begin = kPageTokens;
  int64_t end = 0;
  for (int m = 0; m < Q; ++m) {
    if (visible[m].empty()) continue;
    begin = lesser(begin, visible[m].begin);
    end = greater(end, visible[m].end);
  }
  begin = greater(begin - first, 0) / 4 * 4;
  end = lesser(end - first, kAttentionBlock);
  for (int64_t j = begin; j < end; j += 4) {
    score_tile<Q>(q, keys + j * pad, pad, scores + first + j);
  }
}

void score_block(const float* q, int64_t queries, const float* keys, int64_t pad,
                 const Visible* visible, int64_t first, float* scores) {
  constexpr int kMost = kW > 8 ? 4 : 3;
  for (int64_t m = 0; m < queries;) {
    const float* x = q + m * pad;
    float* out = scores + m * kPageTokens;
    const int64_t left = queries - m;
    if (kMost == 4 && left >= 4) {
      score_queries<4>(x, keys, pad, visible + m, first, out);
      m += 4;
    } else if (left >= 3 && left != 4) {
      score_queries<3>(x, keys, pad, visible + m, first, out);
      m += 3;
    } else if (left >= 2) {
      score_queries<2>(x, keys, pad, visible + m, first, out);
      m += 2;
    } else {
      score_queries<1>(x, keys, pad, visible + m, first, out);
      m += 1;
    }
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

/// V vectors of the mixes of Q queries over `keys` keys.
template <int Q, int V>
void mix_tile(const float* weights, const float* values, int64_t keys, int64_t pad, float* mixes) {
  F sums[Q][V];
  for (int m = 0; m < Q; ++m) {
    for (int v = 0; v < V; ++v) sums[m][v] = F::load(mixes + m * pad + v * kW);
  }
  for (int64_t j = 0; j < keys; ++j) {
    F w[Q];
    for (int m = 0; m < Q; ++m) w[m] = F::set(weights[m * kPageTokens + j]);
    for (int v = 0; v < V; ++v) {
      const F value = F::load(values + j * pad + v * kW);
      for (int m = 0; m < Q; ++m) sums[m][v] = fma(w[m], value, sums[m][v]);
    }
  }
  for (int m = 0; m < Q; ++m) {
    for (int v = 0; v < V; ++v) sums[m][v].store(mixes + m * pad + v * kW);
  }
}

/// Keys [begin, end) of the page for Q queries that see all of them.
template <int Q>
void mix_keys(const float* weights, const float* values, int64_t pad, int64_t first, int64_t begin,
              int64_t end, float* mixes) {
  if (begin >= end) return;
  weights += begin;
  values += (begin - first) * pad;
  int64_t i = 0;
  for (; i + 4 * kW <= pad; i += 4 * kW) {
    mix_tile<Q, 4>(weights, values + i, end - begin, pad, mixes + i);
  }
  for (; i < pad; i += kW) mix_tile<Q, 1>(weights, values + i, end - begin, pad, mixes + i);
}

/// Q queries: what they see in common together, what only some see one by one.
template <int Q>
void mix_queries(const float* weights, const float* values, int64_t pad, const Visible* visible,
                 int64_t first, float* mixes) {
  int64_t begin[Q];
  int64_t end[Q];
  int64_t from = 0;
  int64_t to = kPageTokens;
  for (int m = 0; m < Q; ++m) {
    begin[m] = greater(visible[m].begin, first);
    end[m] = lesser(visible[m].end, first + kAttentionBlock);
    from = greater(from, begin[m]);
    to = lesser(to, end[m]);
  }
  if (from >= to) from = to = kPageTokens;  // nothing in common: all of it below
  for (int m = 0; m < Q; ++m) {
    mix_keys<1>(weights + m * kPageTokens, values, pad, first, begin[m], lesser(end[m], from),
                mixes + m * pad);
  }
  mix_keys<Q>(weights, values, pad, first, from, to, mixes);
  for (int m = 0; m < Q; ++m) {
    mix_keys<1>(weights + m * kPageTokens, values, pad, first, greater(begin[m], to), end[m],
                mixes + m * pad);
  }
}

void mix_block(const float* weights, int64_t queries, const float* values, int64_t pad,
               const Visible* visible, int64_t first, float* mixes) {
  for (int64_t m = 0; m < queries;) {
    const float* w = weights + m * kPageTokens;
    float* out = mixes + m * pad;
    const int64_t left = queries - m;
    if (left >= 3 && left != 4) {
      mix_queries<3>(w, values, pad, visible + m, first, out);
      m += 3;
    } else if (left >= 2) {
      mix_queries<2>(w, values, pad, visible + m, first, out);
      m += 2;
    } else {
      mix_queries<1>(w, values, pad, visible + m, first, out);
      m += 1;
    }
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

constexpr AttentionOps kAttentionOps{decode_rows, score_block, soften_page,
                                     mix_block,   encode_q8_0, rope};

}  // namespace
}  // namespace infer::cpu
