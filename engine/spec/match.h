// Shared by the drafters that look for an earlier occurrence of the latest tokens and propose the
// tokens that followed there.
#pragma once

#include <cstdint>
#include <span>

#include "engine/spec/drafter.h"

namespace infer {

/// Shorter matches are mere chance.
inline constexpr int64_t kShortestMatch = 2;

/// The confidence of a token that follows `length` ≥ 2 matched or copied tokens: 0 to 7 for 2, 3,
/// 4, 5–6, 7–9, 10–15, 16–31 and more.
constexpr int32_t match_confidence(int64_t length) {
  constexpr int64_t kFrom[kConfidenceLevels - 1] = {3, 4, 5, 7, 10, 16, 32};
  int32_t confidence = 0;
  for (const int64_t from : kFrom) confidence += length >= from ? 1 : 0;
  return confidence;
}

/// Proposes the tokens that follow text[0, end), up to the first token below 0. The last `length`
/// tokens of text[0, end) equal the end of the history. If the text is the history itself and the
/// copy reaches its end, it continues with the tokens proposed so far, so that a repeating text
/// keeps repeating.
inline void propose_copy(std::span<const int32_t> text, int64_t end, int64_t length,
                         bool is_history, DraftRequest& request) {
  for (int64_t next = end; std::ssize(request.tokens) < request.most; ++next) {
    const int64_t proposed = next - std::ssize(text);
    if (proposed >= 0 && !is_history) break;
    const int32_t token = proposed < 0 ? text[static_cast<size_t>(next)]
                                       : request.tokens[static_cast<size_t>(proposed)].token;
    if (token < 0) break;
    request.tokens.push_back({token, match_confidence(length++)});
  }
}

}  // namespace infer
