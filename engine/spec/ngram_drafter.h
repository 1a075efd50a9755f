// A drafter without state: what followed when the latest tokens were last seen (prompt look-up
// decoding, Saxena 2023).
#pragma once

#include "engine/spec/drafter.h"

namespace infer {

/// Looks for the longest suffix of the history, of 2 to 8 tokens, that occurs earlier in its last
/// kLookBack tokens, the latest occurrence of it, and copies on from there up to the history's end.
/// The sign tells the length of the match: match_sign().
class NgramDrafter final : public Drafter {
 public:
  static constexpr int64_t kLookBack = 16384;

  const char* name() const override { return "ngram"; }
  /// Never fails. Takes microseconds.
  Status propose(std::span<DraftRequest* const> requests) override;
};

}  // namespace infer
