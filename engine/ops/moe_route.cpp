#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/ops/op.h"
#include "engine/ops/recurrent.h"

namespace infer {
namespace {

Result<std::vector<OutputDesc>> infer(const OpParams& params, InputDescs in, const KvGeometry&) {
  INFER_CHECK_R(check_inputs("moe_route", in, 4, {0}));
  const auto& p = std::get<op::MoeRoute>(params);
  const TensorDesc& logits = in[0]->desc;
  const int64_t experts = logits.shape[0];
  const bool bias_good =
      in[1] == nullptr || (in[1]->desc.type == DType::f32 && in[1]->desc.shape[0] == experts);
  const bool groups_good =
      p.groups >= 1 && experts % p.groups == 0 && p.groups_used >= 1 && p.groups_used <= p.groups &&
      p.group_best >= 1 && p.group_best <= 2 && p.used <= experts / p.groups * p.groups_used &&
      (p.groups == 1 || p.gating != op::MoeRoute::Gating::sparse_mixer) &&
      (p.gating != op::MoeRoute::Gating::softmax_in_order || (p.used == experts && p.groups == 1));
  using Gating = op::MoeRoute::Gating;
  const bool table_good =
      in[2] == nullptr ||
      (in[2]->desc.type == DType::i32 && in[2]->desc.shape[0] == p.used && in[3] != nullptr &&
       in[3]->desc.type == DType::i32 && p.groups == 1 && in[1] == nullptr &&
       (p.gating == Gating::sigmoid || p.gating == Gating::sqrt_softplus));
  INFER_CHECK_R(check_shape("moe_route",
                            logits.type == DType::f32 && logits.shape[1] == 1 && p.used >= 1 &&
                                bias_good && groups_good && table_good,
                            "logits f32 [experts, 1, rows], bias f32 [experts], used ≤ experts, "
                            "table i32 [used, vocabulary] and tokens",
                            in));
  return std::vector{made(DType::i32, p.used, 1, *in[0]), made(DType::f32, p.used, 1, *in[0])};
}

/// Lets only the best groups take part, by the best score of each (DeepSeek-V2, section 2.2.2) or
/// the sum of the two best (DeepSeek-V3, section 2.1.2).
void keep_best_groups(const op::MoeRoute& p, std::vector<double>& scores) {
  const size_t size = scores.size() / static_cast<size_t>(p.groups);
  std::vector<double> worth(static_cast<size_t>(p.groups));
  for (size_t g = 0; g < worth.size(); ++g) {
    std::vector<double> group(scores.begin() + static_cast<ptrdiff_t>(g * size),
                              scores.begin() + static_cast<ptrdiff_t>((g + 1) * size));
    std::ranges::sort(group, std::greater<>());
    worth[g] = group[0] + (size > 1 && p.group_best > 1 ? group[1] : 0.0);
  }
  std::vector<size_t> order(worth.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return worth[a] > worth[b]; });
  for (size_t i = static_cast<size_t>(p.groups_used); i < order.size(); ++i) {
    std::fill_n(scores.begin() + static_cast<ptrdiff_t>(order[i] * size), size,
                -std::numeric_limits<double>::infinity());
  }
}

/// The weight of the i-th of the experts in `order` (op::MoeRoute::Gating::sparse_mixer).
double sparse_weight(const std::vector<double>& logits, const std::vector<size_t>& order, size_t i,
                     double margin) {
  const double best = logits[order[i]];
  double sum = 0;
  for (size_t other = i; other < order.size(); ++other) {
    const double x = logits[order[other]];
    if (best - x <= margin * std::max(std::fabs(x), best)) sum += std::exp(x - best);
  }
  return 1 / sum;
}

/// The experts that the table has for a row: op::MoeRoute.
std::vector<size_t> from_table(const TensorRef& table, int32_t token, size_t experts) {
  const int64_t row = std::clamp<int64_t>(token, 0, table.desc.shape[1] - 1);
  std::vector<size_t> order;
  for (int64_t i = 0; i < table.desc.shape[0]; ++i) {
    const int32_t id = table.row<int32_t>(row, 0)[i];
    auto e = static_cast<size_t>(std::clamp<int64_t>(id, 0, static_cast<int64_t>(experts) - 1));
    while (std::ranges::find(order, e) != order.end()) e = (e + 1) % experts;
    order.push_back(e);
  }
  return order;
}

void reference(const RefCall& call) {
  const auto& p = std::get<op::MoeRoute>(call.params);
  const TensorRef& logits = call.inputs[0];
  const TensorRef& bias = call.inputs[1];
  const auto experts = static_cast<size_t>(logits.desc.shape[0]);
  for (int64_t r = 0; r < logits.desc.shape[2]; ++r) {
    const float* in = logits.row<float>(0, r);
    std::vector<double> probs(in, in + experts);
    const auto softmax = [](std::vector<double>& x) {
      const double best = *std::ranges::max_element(x);
      double sum = 0;
      for (double& v : x) sum += v = std::exp(v - best);
      for (double& v : x) v /= sum;
    };
    if (p.gating == op::MoeRoute::Gating::softmax ||
        p.gating == op::MoeRoute::Gating::softmax_in_order) {
      softmax(probs);
    }
    if (p.gating == op::MoeRoute::Gating::sigmoid) {
      for (double& v : probs) v = 1 / (1 + std::exp(-v));
    }
    if (p.gating == op::MoeRoute::Gating::sqrt_softplus) {
      for (double& v : probs) v = std::sqrt(softplus(v));
    }
    std::vector<double> scores = probs;
    if (bias.data != nullptr) {
      for (size_t e = 0; e < experts; ++e) scores[e] += bias.row<float>(0, 0)[e];
    }
    if (p.groups > 1) keep_best_groups(p, scores);
    std::vector<size_t> order(experts);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    if (p.gating == op::MoeRoute::Gating::softmax_in_order) std::ranges::sort(order);
    const TensorRef& table = call.inputs[2];
    if (table.data != nullptr) {
      order = from_table(table, *call.inputs[3].row<int32_t>(0, r), experts);
    }
    std::vector<double> weights;
    for (int32_t i = 0; i < p.used; ++i) weights.push_back(probs[order[static_cast<size_t>(i)]]);
    if (p.gating == op::MoeRoute::Gating::softmax_of_chosen) softmax(weights);
    if (p.gating == op::MoeRoute::Gating::sparse_mixer) {
      for (size_t i = 0; i < weights.size(); ++i) {
        weights[i] = sparse_weight(probs, order, i, p.margin);
      }
    }
    if (p.normalise) {
      const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
      for (double& w : weights) w /= std::max(sum, 1e-20);  // all may have underflown
    }
    for (int32_t i = 0; i < p.used; ++i) {
      call.outputs[0].row<int32_t>(0, r)[i] = static_cast<int32_t>(order[static_cast<size_t>(i)]);
      call.outputs[1].row<float>(0, r)[i] =
          static_cast<float>(weights[static_cast<size_t>(i)] * p.scale);
    }
  }
}

void cases(std::vector<OpCase>& all) {
  using Gating = op::MoeRoute::Gating;
  struct Kind {
    const char* name;
    op::MoeRoute params;
    bool bias;
    bool table = false;
  };
  const Kind kinds[] = {
      {"softmax", {Gating::softmax, 3}, false},
      {"softmax normalised", {Gating::softmax, 4, true}, false},
      {"softmax of chosen", {Gating::softmax_of_chosen, 2}, false},
      {"sigmoid biased scaled", {Gating::sigmoid, 4, true, 2.5f}, true},
      {"sigmoid biased groups", {Gating::sigmoid, 4, true, 2.5f, 4, 2}, true},
      {"softmax groups by the best", {Gating::softmax, 3, false, 16.0f, 4, 2, 1}, false},
      {"all", {Gating::softmax, 16}, false},
      {"all in order", {Gating::softmax_in_order, 16, false, 1.7f}, false},
      {"sparse mixer", {Gating::sparse_mixer, 2, false, 1.0f, 1, 1, 2, 0.3f}, false},
      {"sparse mixer scaled", {Gating::sparse_mixer, 5, true, 1.5f, 1, 1, 2, 1.2f}, false},
      {"root of softplus biased", {Gating::sqrt_softplus, 4, true, 1.5f}, true},
      {"root of softplus by a table", {Gating::sqrt_softplus, 4, true, 1.5f}, false, true},
      {"sigmoid by a table", {Gating::sigmoid, 6, false, 2.5f}, false, true},
  };
  for (const Kind& kind : kinds) {
    for (const int64_t rows : {1, 2, 3, 33}) {
      OpCase c;
      c.name = std::string(kind.name) + " rows " + std::to_string(rows);
      c.rows = rows;
      c.build = [kind](CaseBuilder& b) {
        const ValueId logits = b.activations(16);
        const ValueId bias = kind.bias ? b.weight(DType::f32, 16) : kNoValue;
        constexpr int64_t kVocabulary = 7;
        // Normally distributed ids, rounded: some are below 0, and some come twice.
        const ValueId table =
            kind.table ? b.weight(DType::i32, kind.params.used, kVocabulary) : kNoValue;
        const ValueId tokens = kind.table ? b.indices(1, kVocabulary, -1) : kNoValue;
        for (const ValueId out : b.graph().add_all(kind.params, {logits, bias, table, tokens})) {
          b.graph().output(out);
        }
      };
      all.push_back(std::move(c));
    }
  }
}

}  // namespace

const OpDef& moe_route_op() {
  static const OpDef def{OpId::MoeRoute, "moe_route", infer, reference, cases};
  return def;
}

}  // namespace infer
