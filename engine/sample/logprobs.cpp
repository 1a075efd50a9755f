#include "engine/sample/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/portable_math.h"

namespace infer {

std::vector<LogProbability> log_probabilities(std::span<const float> logits, int32_t token,
                                              int32_t top) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const auto number = [](float x) { return std::isnan(x) ? kNever : x; };
  float best = kNever;
  for (const float x : logits) best = std::max(best, number(x));
  double total = 0;
  for (const float x : logits) total += portable::exp(double{number(x)} - best);
  const double shift = best + portable::log(total);
  const auto value = [&](int32_t id) {
    const float x = number(logits[static_cast<size_t>(id)]);
    return LogProbability{id, x == kNever ? kNever : static_cast<float>(x - shift)};
  };
  std::vector<LogProbability> result{value(token)};
  if (top <= 0) return result;

  // A heap of the likeliest so far, whose least likely is on top.
  const auto likelier = [](const LogProbability& a, const LogProbability& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  };
  std::vector<LogProbability> heap;
  const auto most = std::min(static_cast<size_t>(top), logits.size());
  heap.reserve(most + 1);
  for (size_t i = 0; i < logits.size(); ++i) {
    const LogProbability p{static_cast<int32_t>(i), number(logits[i])};
    if (heap.size() == most && !likelier(p, heap.front())) continue;
    heap.push_back(p);
    std::ranges::push_heap(heap, likelier);
    if (heap.size() <= most) continue;
    std::ranges::pop_heap(heap, likelier);
    heap.pop_back();
  }
  std::ranges::sort(heap, likelier);
  for (const LogProbability& p : heap) result.push_back(value(p.first));
  return result;
}

}  // namespace infer
