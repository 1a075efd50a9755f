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

/// The matcher of a grammar, with the tokens known to be allowed in its states. Not thread-safe.
class MaskTable {
 public:
  MaskTable(std::shared_ptr<const CompiledGrammar> grammar, std::shared_ptr<const TokenTrie> trie)
      : trie_(std::move(trie)), matcher_(std::move(grammar)) {}

  Matcher& matcher() { return matcher_; }
  const TokenTrie& trie() const { return *trie_; }
  /// The tokens that may follow in the set.
  std::shared_ptr<const TokenMask> mask(Matcher::SetId set);
  bool knows_mask(Matcher::SetId set) const { return masks_.contains(set); }
  /// The set after one more token, or kDead.
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
  /// The tokens of a state that are allowed whatever rule called its rule.
  struct StateTokens {
    bool usable = false;         ///< false if finding them exceeds the limits
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

/// The table of a grammar, and the states of the sequences that use it. A table is dropped when it
/// is full or its memory is needed. The states are then kept in a free form, and enter the next
/// table at their next use. `mutex` guards everything except bytes().
class MaskCache {
 public:
  /// The state of a sequence. Made, used and removed with the mutex held.
  class Place {
   public:
    explicit Place(MaskCache& cache);
    Place(const Place& other);
    ~Place();
    Place& operator=(const Place&) = delete;

    /// The state in the present table, which is made if there is none.
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

  /// The table; makes a new one if there is none.
  MaskTable& table();
  /// Drops the table if it is full.
  void renew() {
    if (table_ && table_->full()) give_up();
  }
  void give_up();
  const TokenTrie& trie() const { return *trie_; }

  /// Bytes of the grammar and its table at the last note_bytes(). Any thread.
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
