// The masks of one grammar over one vocabulary, computed when they are first needed.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/sample/constraint.h"
#include "engine/sample/grammar/matcher.h"
#include "engine/sample/grammar/token_trie.h"

namespace infer {

/// The matcher of a grammar with what is known of tokens in its states. One thread at a time.
class MaskTable {
 public:
  MaskTable(std::shared_ptr<const CompiledGrammar> grammar, std::shared_ptr<const TokenTrie> trie)
      : trie_(std::move(trie)), matcher_(std::move(grammar)) {}

  Matcher& matcher() { return matcher_; }
  const TokenTrie& trie() const { return *trie_; }
  /// The tokens that lead from the set to others.
  std::shared_ptr<const TokenMask> mask(Matcher::SetId set);
  /// The set with the bytes of a token more, or kDead.
  Matcher::SetId step(Matcher::SetId set, int32_t token);
  /// Whether it has grown beyond what one may hold.
  bool full() const;

 private:
  /// A subtree of the trie to try with the real stack, or a node on the way to one.
  struct Doubt {
    uint32_t node;
    uint32_t skip;  ///< the next doubt that is not below this one
    bool subtree;
  };
  struct Needed {
    uint32_t rounds;  ///< of a counted rule that the token begins, of which the last may be partial
    int32_t token;
  };
  /// The tokens in a state whatever called its rule.
  struct StateTokens {
    bool usable = false;         ///< false where telling them apart exceeds the limits
    uint32_t reach = 0;          ///< nested calls above the state's own
    TokenMask allowed;           ///< without words where `few` lists them
    std::vector<int32_t> few;    ///< the tokens allowed
    std::vector<Needed> rounds;  ///< of a counted rule: those allowed, most rounds first
    std::vector<Doubt> doubts;
    size_t bytes() const;
  };

  Matcher::SetId canonical(Matcher::SetId set);
  std::shared_ptr<const TokenMask> compute(Matcher::SetId set);
  const StateTokens& tokens_in(uint32_t state);
  StateTokens tell_apart(uint32_t state);
  bool known_apart(const Matcher::Config& config);
  bool reads_after(const Matcher::Config& config);
  void add_known(const Matcher::Config& config, TokenMask& mask);
  void try_subtree(uint32_t first, uint32_t end, TokenMask& mask);
  void try_doubts(const std::vector<Doubt>& doubts, TokenMask& mask);
  bool narrow(uint32_t state) const;
  bool out_of_work() const;

  std::shared_ptr<const TokenTrie> trie_;
  Matcher matcher_;
  std::unordered_map<Matcher::SetId, std::shared_ptr<const TokenMask>> masks_;
  size_t mask_bytes_ = 0;
  std::unordered_map<uint32_t, StateTokens> states_;
  size_t state_bytes_ = 0;
  std::vector<Matcher::SetId> sets_;  ///< of the bytes on the way to the node being tried, by depth
  uint64_t work_limit_ = 0;
};

/// Hands out the table that is in use, which is replaced when it is full; sequences carry their
/// state over when they next come by. `mutex` guards all tables.
class MaskCache {
 public:
  MaskCache(std::shared_ptr<const CompiledGrammar> grammar, std::shared_ptr<const TokenTrie> trie)
      : grammar_(std::move(grammar)), trie_(std::move(trie)) {}

  std::mutex mutex;

  std::shared_ptr<MaskTable> table() {
    if (!table_ || table_->full()) table_ = std::make_shared<MaskTable>(grammar_, trie_);
    return table_;
  }

 private:
  std::shared_ptr<const CompiledGrammar> grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  std::shared_ptr<MaskTable> table_;
};

}  // namespace infer
