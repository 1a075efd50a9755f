// A drafter that continues the longest suffix of a sequence that was seen before, in the sequence
// itself or in what earlier ones generated, at any distance: suffix automata as in "SAM Decoding"
// (Hu et al. 2024).
#pragma once

#include <array>
#include <unordered_map>

#include "engine/spec/drafter.h"
#include "engine/spec/suffix_automaton.h"

namespace infer {

/// Copies what followed the latest earlier occurrence, up to the end of the text that it is in (the
/// end of its own text is followed by what is proposed); the
/// sequence's own text where the matches are equally long. The sign tells the length of the match:
/// match_sign().
///
/// Memory: a SuffixAutomaton for each sequence, until forget(), and two of at most kEarlierTokens
/// for what was learnt; when the newer is full, the older is dropped. All is within most_bytes() of
/// what the constructor is given: where the sequences have more tokens than that allows, those that
/// were not asked about for some time are read again when they are, and of the others some are not
/// continued from their own text. Time: amortised constant for
/// a new token of a history and a comparison of memory for the others. A history that was shortened
/// or changed is read again.
class SuffixDrafter final : public Drafter {
 public:
  static constexpr int64_t kEarlierTokens = 1 << 18;

  /// For so many sequences at once of so many tokens each, or others that take no more.
  SuffixDrafter(int64_t tokens, int64_t sequences) : most_tokens_(charge(tokens) * sequences) {}
  static constexpr int64_t most_bytes(int64_t tokens, int64_t sequences) {
    return charge(tokens) * sequences * SuffixAutomaton::kTokenBytes +
           2 * charge(kEarlierTokens) * SuffixAutomaton::kTokenBytes +
           (tokens + kEarlierTokens) * SuffixAutomaton::kGrowingBytes;
  }

  const char* name() const override { return "suffix"; }
  /// Fails with out_of_memory.
  Status propose(std::span<DraftRequest* const> requests) override;
  /// Of more than kEarlierTokens tokens only the last. Where memory is short, all that was learnt
  /// is dropped.
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
