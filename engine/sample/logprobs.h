// Log-probabilities of a step's tokens, as the model gives them: before any sampler.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace infer {

/// A token and the natural logarithm of its probability: −∞ where its logit is −∞ or no number.
using LogProbability = std::pair<int32_t, float>;

/// Of `token` (first) and of the `top` most likely, the likeliest first, equal ones by id.
std::vector<LogProbability> log_probabilities(std::span<const float> logits, int32_t token,
                                              int32_t top);

}  // namespace infer
