// A drafter without state. It proposes the tokens that followed the last earlier occurrence of the
// latest tokens (prompt look-up decoding, Saxena 2023).
#pragma once

#include "engine/spec/drafter.h"

namespace infer {

/// Finds the longest suffix of the history, of 2 to 8 tokens, that occurs earlier in the last
/// kLookBack tokens. Copies from behind its latest occurrence up to the end of the history. The
/// confidence of a token is match_confidence() of the matched length.
class NgramDrafter final : public Drafter {
 public:
  static constexpr int64_t kLookBack = 16384;

  const char* name() const override { return "ngram"; }
  /// Never fails. Takes microseconds.
  Status propose(std::span<DraftRequest* const> requests) override;
};

}  // namespace infer
