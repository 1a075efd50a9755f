// The running softmax: a page's scores become weights relative to the largest score so far, and
// what was mixed before is scaled to it (Milakov and Gimelshein 2018).
#pragma once

#include <limits>

#include "backends/cpu/attention_kernels.h"
#include "backends/cpu/simd/plain.h"
#include "backends/cpu/simd/vec_impl.h"
#include "engine/core/portable_math.h"
#include "engine/graph/kv_geometry.h"

namespace infer::cpu {
namespace {

/// Scores of one query, of which [begin, end) count, to weights; whole lanes are computed, and what
/// does not count weighs nothing.
void soften_query(float* scores, Visible visible, float cap, SoftmaxState& state, float* mix,
                  int64_t pad) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const int64_t begin = visible.begin / kLanes * kLanes;
  const int64_t end = (visible.end + kLanes - 1) / kLanes * kLanes;
  if (cap > 0) softcap(scores + begin, scores + begin, cap, end - begin);
  fill(scores + begin, scores + visible.begin, kNever);
  fill(scores + visible.end, scores + end, kNever);
  F bests = F::load(scores + begin);
  for (int64_t j = begin + kW; j < end; j += kW) bests = F::max(bests, F::load(scores + j));
  const float highest = bests.highest();
  const float best = state.best < highest ? highest : state.best;
  // Where every score is −∞ so far, nothing has a weight, and −∞ − (−∞) would be no number.
  const float sum = exp_sum(scores + begin, best == kNever ? 0.0f : best, end - begin);
  if (best != state.best) {
    const auto keep = static_cast<float>(portable::exp(state.best - best));
    if (state.sum != 0) scale_mul(mix, mix, nullptr, keep, pad);
    state.sum *= keep;
    state.best = best;
  }
  state.sum += sum;
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
