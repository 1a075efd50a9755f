#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/parallel.h"
#include "engine/core/portable_math.h"

namespace infer::cpu {
namespace {

/// Each thread's floats: scores, probabilities; then the worth of each group.
int64_t thread_floats(int64_t experts, int64_t groups) {
  return round_up<int64_t>(2 * experts + groups, 16);
}

int64_t scratch(const NodeView& node, const CpuContext& context) {
  return thread_floats(node.input(0)->desc.shape[0],
                       std::get<op::MoeRoute>(node.node.params).groups) *
         4 * context.threads();
}

constexpr float kOut = -std::numeric_limits<float>::infinity();

/// The index of the largest of n scores, the lowest among equals.
int64_t best_of(const float* scores, int64_t n) {
  return std::max_element(scores, scores + n) - scores;
}

/// Leaves only the best groups in play, by the best score of each or the sum of the two best.
void keep_best_groups(const op::MoeRoute& p, float* scores, int64_t experts, float* worth) {
  const int64_t size = experts / p.groups;
  for (int64_t g = 0; g < p.groups; ++g) {
    float first = kOut;
    float second = kOut;
    for (int64_t e = g * size; e < (g + 1) * size; ++e) {
      if (scores[e] > first) {
        second = first;
        first = scores[e];
      } else if (scores[e] > second) {
        second = scores[e];
      }
    }
    worth[g] = size > 1 && p.group_best > 1 ? first + second : first;
  }
  for (int32_t i = 0; i < p.groups_used; ++i) {
    worth[best_of(worth, p.groups)] = kOut;  // taken
  }
  for (int64_t g = 0; g < p.groups; ++g) {
    if (worth[g] != kOut) std::fill_n(scores + g * size, size, kOut);
  }
}

void softmax(const VecOps& vec, float* x, int64_t n) {
  const float sum = vec.exp_sum(x, vec.max(x, n), n);
  for (int64_t i = 0; i < n; ++i) x[i] /= sum;
}

float sqrt_softplus(float x) {
  const double size = std::fabs(static_cast<double>(x));
  const double softplus =
      std::max(static_cast<double>(x), 0.0) + portable::log1p(portable::exp(-size));
  return static_cast<float>(std::sqrt(softplus));
}

/// The experts that a table has for a token: op::MoeRoute.
void ids_of_token(const TensorRef& table, int32_t token, int64_t experts, int32_t* ids) {
  const int64_t row = std::clamp<int64_t>(token, 0, table.desc.shape[1] - 1);
  const auto* from = table.row<int32_t>(row, 0);
  for (int64_t i = 0; i < table.desc.shape[0]; ++i) {
    int64_t e = std::clamp<int64_t>(from[i], 0, experts - 1);
    while (std::find(ids, ids + i, e) != ids + i) e = (e + 1) % experts;
    ids[i] = static_cast<int32_t>(e);
  }
}

/// The weight of an expert with logit `best` (op::MoeRoute::Gating::sparse_mixer). `scores`: of
/// those chosen before it kOut.
float sparse_weight(const float* logits, const float* scores, int64_t experts, float best,
                    float margin) {
  double sum = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const float x = logits[e];
    const bool counts = scores[e] != kOut && best - x <= margin * std::max(std::fabs(x), best);
    if (counts) sum += portable::exp(static_cast<double>(x) - static_cast<double>(best));
  }
  return static_cast<float>(1 / sum);
}

void run(const CpuCall& call) {
  const auto& p = std::get<op::MoeRoute>(call.params);
  const TensorRef& logits = call.inputs[0];
  const TensorRef& bias = call.inputs[1];
  const int64_t experts = logits.desc.shape[0];
  float* scores =
      reinterpret_cast<float*>(call.scratch) + call.thread * thread_floats(experts, p.groups);
  float* probs = scores + experts;
  for_each_row(call, logits.desc, [&](int64_t, int64_t r) {
    std::copy_n(logits.row<float>(0, r), experts, probs);
    const bool in_order = p.gating == op::MoeRoute::Gating::softmax_in_order;
    if (in_order || p.gating == op::MoeRoute::Gating::softmax) {
      softmax(call.vec(), probs, experts);
    }
    if (p.gating == op::MoeRoute::Gating::sigmoid) {
      for (int64_t e = 0; e < experts; ++e)
        probs[e] = static_cast<float>(portable::sigmoid(probs[e]));
    }
    if (p.gating == op::MoeRoute::Gating::sqrt_softplus) {
      for (int64_t e = 0; e < experts; ++e) probs[e] = sqrt_softplus(probs[e]);
    }
    for (int64_t e = 0; e < experts; ++e) {
      scores[e] = probs[e] + (bias.data == nullptr ? 0.0f : bias.row<float>(0, 0)[e]);
    }
    if (p.groups > 1) keep_best_groups(p, scores, experts, probs + experts);
    int32_t* ids = call.outputs[0].row<int32_t>(0, r);
    float* weights = call.outputs[1].row<float>(0, r);
    const bool given = call.inputs[2].data != nullptr;
    if (given) ids_of_token(call.inputs[2], *call.inputs[3].row<int32_t>(0, r), experts, ids);
    for (int32_t i = 0; i < p.used; ++i) {
      const int64_t e = given ? ids[i] : in_order ? i : best_of(scores, experts);
      weights[i] = p.gating == op::MoeRoute::Gating::sparse_mixer
                       ? sparse_weight(probs, scores, experts, probs[e], p.margin)
                       : probs[e];
      scores[e] = kOut;
      ids[i] = static_cast<int32_t>(e);
    }
    if (p.gating == op::MoeRoute::Gating::softmax_of_chosen) softmax(call.vec(), weights, p.used);
    float factor = p.scale;
    if (p.normalise) {
      float sum = 0;
      for (int32_t i = 0; i < p.used; ++i) sum += weights[i];
      factor /= std::max(sum, 1e-20f);  // all may have underflown
    }
    for (int32_t i = 0; i < p.used; ++i) weights[i] *= factor;
  });
}

}  // namespace

const CpuOp& moe_route_cpu() {
  static const CpuOp op{OpId::MoeRoute, Sharing::whole, always_supported, scratch, run};
  return op;
}

}  // namespace infer::cpu
