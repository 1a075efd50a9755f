#include "backends/cuda/ops/moe_route.h"

#include "backends/cuda/device/curves.h"
#include "backends/cuda/device/ranked.h"
#include "backends/cuda/device/reduce.h"
#include "backends/cuda/device/step.h"

namespace infer::cuda {

/// Whether a with index i comes before b with index j.
INFER_DEVICE bool comes_before(float a, uint32_t i, float b, uint32_t j) {
  return a > b || (a == b && i < j);
}

/// SparseMixer's weight of a chosen expert: op::MoeRoute.
INFER_DEVICE float sparse_weight(SharedPtr<float> logits, SharedPtr<float> scores, uint32_t experts,
                                 uint32_t chosen, float margin) {
  const float best = logits[chosen];
  const float own = scores[chosen];
  float sum = 0;
  for (uint32_t e = 0; e < experts; ++e) {
    if (e != chosen && comes_before(scores[e], e, own, chosen)) continue;
    const float x = logits[e];
    if (best - x <= margin * most_of(magnitude_of(x), best)) sum = sum + exp_of(x - best);
  }
  return 1.0f / sum;
}

/// The experts that the table has for a row's token, by one thread: op::MoeRoute.
INFER_DEVICE void take_from_table(const MoeRouteParams& p, uint32_t row,
                                  const Global<int32_t>& ids) {
  const auto within = [](int32_t x, uint32_t count) {
    const auto i = static_cast<uint32_t>(x < 0 ? 0 : x);
    return i < count ? i : count - 1;
  };
  const uint32_t token = within(Global<const int32_t>(p.tokens)[row], p.vocabulary);
  const Global<const int32_t> table(p.table + uint64_t{token} * p.used * 4);
  for (uint32_t i = 0; i < p.used; ++i) {
    uint32_t e = within(table[i], p.experts);
    for (uint32_t j = 0; j < i; ++j) {
      if (static_cast<uint32_t>(ids[j]) != e) continue;
      e = e + 1 < p.experts ? e + 1 : 0;
      j = static_cast<uint32_t>(-1);  // once more from the first
    }
    ids[i] = static_cast<int32_t>(e);
  }
}

/// Writes the chosen experts, the best first. A warp looks for one after the other.
INFER_DEVICE void choose_best(const MoeRouteParams& p, const Global<int32_t>& ids,
                              SharedPtr<float> scores) {
  uint64_t last = ~uint64_t{0};
  for (uint32_t i = 0; i < p.used; ++i) {
    uint64_t best = 0;
    for (uint32_t e = lane(); e < p.experts; e += 32) {
      const uint64_t number = ranked(scores[e], e);
      best = number < last && number > best ? number : best;
    }
    last = warp_max(best);
    if (lane() == 0) ids[i] = static_cast<int32_t>(place_of_ranked(last));
  }
}

INFER_KERNEL(moe_route, MoeRouteParams, kReduceThreads, 1) {
  const uint32_t row = block_x();
  if (row >= step_rows(p.step, p.rows)) return;
  const uint32_t first = thread();
  const Global<const float> logits(p.logits + uint64_t{row} * p.logits_stride * 4);
  const SharedPtr<float> gates = dynamic_shared<float>(0, p.experts);
  const SharedPtr<float> scores = dynamic_shared<float>(4 * p.experts, p.experts);
  const SharedPtr<float> worth = dynamic_shared<float>(8 * p.experts, p.groups);
  const SharedPtr<float> chosen = dynamic_shared<float>(8 * p.experts + 4 * p.groups, p.used);

  float most = -infinity();
  for (uint32_t e = first; e < p.experts; e += kReduceThreads) most = most_of(most, logits[e]);
  most = block_max(most);
  float sum = 0;
  for (uint32_t e = first; e < p.experts; e += kReduceThreads) {
    float gate = logits[e];
    if (p.gating == 0 || p.gating == 4) gate = exp_of(gate - most);
    if (p.gating == 1) gate = sigmoid_of(gate);
    if (p.gating == 5) gate = root_of(softplus_of(gate));
    gates[e] = gate;
    sum = sum + gate;
  }
  sum = block_sum(sum);
  for (uint32_t e = first; e < p.experts; e += kReduceThreads) {
    float gate = gates[e];
    if (p.gating == 0 || p.gating == 4) gate = gate / sum;
    gates[e] = gate;
    scores[e] = p.bias != 0 ? gate + Global<const float>(p.bias)[e] : gate;
  }
  sync_block();

  if (p.groups > 1) {
    const uint32_t size = p.experts / p.groups;
    for (uint32_t g = first; g < p.groups; g += kReduceThreads) {
      float best = -infinity();
      float second = -infinity();
      for (uint32_t e = g * size; e < (g + 1) * size; ++e) {
        const float s = scores[e];
        second = most_of(second, least_of(best, s));
        best = most_of(best, s);
      }
      worth[g] = best + (size > 1 && p.group_best > 1 ? second : 0.0f);
    }
    sync_block();
    for (uint32_t g = first; g < p.groups; g += kReduceThreads) {
      const float own = worth[g];
      uint32_t before = 0;
      for (uint32_t other = 0; other < p.groups; ++other) {
        if (other != g && comes_before(worth[other], other, own, g)) ++before;
      }
      if (before < p.groups_used) continue;
      for (uint32_t e = g * size; e < (g + 1) * size; ++e) scores[e] = -infinity();
    }
    sync_block();
  }

  const Global<int32_t> ids(p.ids + uint64_t{row} * p.ids_stride * 4);
  if (p.table != 0) {
    if (first == 0) take_from_table(p, row, ids);
  } else if (p.gating == 4) {
    for (uint32_t e = first; e < p.experts; e += kReduceThreads) ids[e] = static_cast<int32_t>(e);
  } else if (warp() == 0) {
    choose_best(p, ids, scores);
  }
  sync_block();
  for (uint32_t i = first; i < p.used; i += kReduceThreads) {
    const auto e = static_cast<uint32_t>(ids[i]);
    chosen[i] = p.gating == 3 ? sparse_weight(gates, scores, p.experts, e, p.margin)
                              : static_cast<float>(gates[e]);
  }
  sync_block();

  if (first > 0) return;
  if (p.gating == 2) {
    float best = chosen[0];
    for (uint32_t i = 1; i < p.used; ++i) best = most_of(best, chosen[i]);
    float total = 0;
    for (uint32_t i = 0; i < p.used; ++i) {
      const float weight = exp_of(chosen[i] - best);
      chosen[i] = weight;
      total = total + weight;
    }
    for (uint32_t i = 0; i < p.used; ++i) chosen[i] = chosen[i] / total;
  }
  float total = 0;
  for (uint32_t i = 0; i < p.used; ++i) total = total + chosen[i];
  const float divisor = p.normalise != 0 ? most_of(total, 1e-20f) : 1.0f;
  for (uint32_t i = 0; i < p.used; ++i) {
    Global<float>(p.weights)[row * p.weights_stride + i] = chosen[i] / divisor * p.factor;
  }
}

}  // namespace infer::cuda
