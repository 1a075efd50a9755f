// A drafter that finds the longest suffix of a sequence that occurred before, at any distance, in
// the sequence itself or in text generated earlier, and proposes the tokens that followed. It uses
// suffix automata as in "SAM Decoding" (Hu et al. 2024).
#pragma once

#include <array>
#include <unordered_map>

#include "engine/spec/drafter.h"
#include "engine/spec/suffix_automaton.h"

namespace infer {

/// Copies the tokens after the latest earlier occurrence, up to the end of that text. If it is the
/// sequence's own text, the copy continues with the tokens proposed so far. If the matches in own
/// and earlier text are equally long, uses the own text. The confidence of a token is
/// match_confidence() of the length of the match.
///
/// Memory: one SuffixAutomaton for each sequence until forget(), and two of at most kEarlierTokens
/// for learnt text; when the newer one is full, the older one is dropped. All stays within
/// most_bytes() of the constructor's arguments. If the sequences have more tokens than that, the
/// automata of sequences not used for some time are dropped and built again when needed; some other
/// sequences are then not continued from their own text.
///
/// Time: amortised constant for each new token of a history, plus a comparison with the old tokens.
/// A history that was shortened or changed is read again.
class SuffixDrafter final : public Drafter {
 public:
  static constexpr int64_t kEarlierTokens = 1 << 18;

  /// For `sequences` sequences at once of `tokens` tokens each, of which one has `further` tokens
  /// more, or any others that take no more memory.
  SuffixDrafter(int64_t tokens, int64_t sequences, int64_t further = 0)
      : most_tokens_(charge(tokens) * sequences + further) {}
  static constexpr int64_t most_bytes(int64_t tokens, int64_t sequences, int64_t further = 0) {
    return (charge(tokens) * sequences + further) * SuffixAutomaton::kTokenBytes +
           2 * charge(kEarlierTokens) * SuffixAutomaton::kTokenBytes +
           (tokens + further + kEarlierTokens) * SuffixAutomaton::kGrowingBytes;
  }

  const char* name() const override { return "suffix"; }
  /// Fails with out_of_memory.
  Status propose(std::span<DraftRequest* const> requests) override;
  /// Learns at most the last kEarlierTokens tokens. If memory is short, drops all learnt text.
  void learn(int64_t id, std::span<const int32_t> history, int64_t from) override;
  void unlearn() override;
  void forget(int64_t id) override;

  /// Memory of all automata.
  int64_t bytes() const;

 private:
  struct Sequence {
    SuffixAutomaton own;
    std::array<SuffixAutomaton::Cursor, 2> earlier;  ///< in each of earlier_
    int64_t learnt = -1;                             ///< learnt_ when they were last moved
    int64_t charged = 0;                             ///< tokens that count for `own`
    int64_t last_use = 0;                            ///< clock_ then
  };

  static constexpr int64_t charge(int64_t tokens) { return tokens + SuffixAutomaton::kFirstTokens; }
  bool make_room(Sequence& sequence, int64_t tokens);
  void clear(Sequence& sequence);
  void read(Sequence& sequence, std::span<const int32_t> history);
  void copy(const Sequence& sequence, DraftRequest& request) const;

  int64_t most_tokens_;
  int64_t charged_ = 0;  ///< sum over sequences
  int64_t clock_ = 0;    ///< calls of propose()
  std::unordered_map<int64_t, Sequence> sequences_;
  std::array<SuffixAutomaton, 2> earlier_;  ///< newer, older; a border after each text
  int64_t learnt_ = 0;                      ///< how often earlier_ has changed
};

}  // namespace infer
