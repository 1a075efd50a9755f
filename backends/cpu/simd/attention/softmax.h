// The running softmax: a page's scores become weights relative to the largest score so far, and
// what was mixed before is scaled to it (Milakov and Gimelshein 2018).
#pragma once

#include <cmath>
#include <limits>

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/simd/plain.h"
#include "backends/cpu/simd/vec_impl.h"
#include "engine/graph/kv_geometry.h"

namespace infer::cpu {
namespace {

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

}  // namespace
}  // namespace infer::cpu
