// What a session generates, to the bit.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "infer/infer.hpp"

namespace infer::test {

/// Tokens with their log-probabilities: not only what was chosen but the bits behind it.
using Text = std::vector<std::pair<int32_t, float>>;

/// Nothing if it fails.
inline Text generate(Session& session, const std::vector<int32_t>& prompt,
                     GenerateOptions options) {
  Text made;
  options.logprobs = 1;
  options.on_logprobs = [&](std::span<const std::pair<int32_t, float>> all) {
    made.emplace_back(all.front());
    return true;
  };
  const auto result = session.generate(prompt, options, {});
  if (!result) made.clear();
  return made;
}

}  // namespace infer::test
