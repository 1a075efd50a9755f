// The masks of one grammar over one vocabulary, computed when they are first needed.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
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
  bool knows_mask(Matcher::SetId set) const { return masks_.contains(set); }
  /// The set with a token more, or kDead.
  Matcher::SetId step(Matcher::SetId set, int32_t token);
  /// Whether it has grown beyond what one may hold.
  bool full() const;
  /// Memory in use, about.
  size_t bytes() const;

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
  void add_named(const Matcher::Config& config, TokenMask& mask);
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

/// The one table of a grammar and the places that sequences have in it. A table that is full, or
/// whose memory is needed, is given up: places are kept in a form of their own then, and carried
/// over to the next table when they are next used. `mutex` guards all but bytes().
class MaskCache {
 public:
  /// Where a sequence's text stands. Made, used and removed with the mutex held.
  class Place {
   public:
    explicit Place(MaskCache& cache);
    Place(const Place& other);
    ~Place();
    Place& operator=(const Place&) = delete;

    /// In the table of the cache.
    Matcher::SetId set() const;
    void move_to(Matcher::SetId set) { set_ = set; }

   private:
    friend class MaskCache;
    MaskCache& cache_;
    mutable Matcher::SetId set_ = Matcher::kDead;
    mutable std::optional<Matcher::FreeSet> free_;  ///< instead of set_, while there is no table
    Place* before_ = nullptr;                       ///< in the list of all places
    Place* after_ = nullptr;
  };

  MaskCache(std::shared_ptr<const CompiledGrammar> grammar, std::shared_ptr<const TokenTrie> trie)
      : grammar_(std::move(grammar)), trie_(std::move(trie)), bytes_(grammar_->bytes()) {}

  std::mutex mutex;
  std::atomic<int32_t> announced{0};  ///< masks that other threads will compute or are computing

  /// Made anew if there is none.
  MaskTable& table();
  /// Gives the table up if it is full.
  void renew() {
    if (table_ && table_->full()) give_up();
  }
  void give_up();
  const TokenTrie& trie() const { return *trie_; }

  /// Memory of the grammar and its table, as it was when note_bytes() was last called. Any thread.
  size_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  void note_bytes() {
    const size_t table = table_ ? table_->bytes() : 0;
    bytes_.store(grammar_->bytes() + table, std::memory_order_relaxed);
  }

 private:
  std::shared_ptr<const CompiledGrammar> grammar_;
  std::shared_ptr<const TokenTrie> trie_;
  std::unique_ptr<MaskTable> table_;
  Place* places_ = nullptr;  ///< the newest
  std::atomic<size_t> bytes_;
};

}  // namespace infer
