// Which bytes may follow: follows all ways to read a text by a grammar at once.
//
// A pushdown automaton simulated nondeterministically: a configuration is a state of the grammar, a
// count of rounds and a stack of calls to return to. Stacks share their lower parts (Tomita 1985),
// sets of configurations are interned and the moves between them remembered, which makes it a
// deterministic automaton that is built as it is used.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/sample/grammar/grammar.h"

namespace infer {

/// Grows with use (bytes()) and never shrinks. To free memory, its owner starts a new one and moves
/// configurations with export_configs and import_configs. Not thread-safe.
///
/// If a text can be read in more than kMaxConfigs ways, some of them are dropped. The rest are
/// still ways of the grammar, and every set except kDead can be completed.
class Matcher {
 public:
  using SetId = uint32_t;
  /// The empty set: no text of the grammar begins in this way.
  static constexpr SetId kDead = 0;
  static constexpr size_t kMaxConfigs = 512;

  /// The stack of a whole text, and a stack whose lower part is unknown. Returning to the unknown
  /// part counts as an escape.
  static constexpr uint32_t kEmptyStack = 0;
  static constexpr uint32_t kUnknownStack = 1;

  struct Config {
    uint32_t state;
    uint32_t count;  ///< rounds of a counted rule that are complete
    uint32_t stack;
    auto operator<=>(const Config&) const = default;
  };
  /// A configuration with its stack from the top down, independent of the matcher.
  struct FreeConfig {
    uint32_t state;
    uint32_t count;
    std::vector<uint32_t> returns;
  };
  struct FreeSet {
    std::vector<FreeConfig> configs;
    bool complete = false;
  };

  explicit Matcher(std::shared_ptr<const CompiledGrammar> grammar);

  SetId start();
  /// The set after one more byte, or kDead.
  SetId step(SetId set, uint8_t byte) {
    Set& from = sets_[set];
    if (from.next) {
      const uint32_t known = (*from.next)[byte];
      if (known != kNotKnown) return known;
    }
    return make_step(set, byte);
  }

  /// The set after `token`, read from `set` as a whole token, joined with `by_bytes`, the set after
  /// its bytes.
  SetId join_token(SetId set, int32_t token, SetId by_bytes);
  /// Whether a text can be completed from the state with the stack below it.
  bool may_go_on(uint32_t state, uint32_t stack) const {
    return stacks_[stack].depth + grammar_->state(state).height <= grammar_->max_depth();
  }

  std::span<const Config> configs(SetId set) const {
    return {configs_.data() + sets_[set].begin, sets_[set].size};
  }
  /// True if the text may end here.
  bool complete(SetId set) const { return sets_[set].complete; }
  /// True if a configuration has returned to the unknown part of its stack.
  bool escaped(SetId set) const { return sets_[set].escaped; }
  uint32_t depth(uint32_t stack) const { return stacks_[stack].depth; }
  /// Nested calls for completing the worst configuration of the set.
  uint32_t reach(SetId set) const { return sets_[set].reach; }

  /// The set of only `config`: its edges, without the rules that it could call or return to.
  SetId only(const Config& config);
  /// The same with an unknown caller. Counted rules then have no limits.
  SetId isolated(uint32_t state) { return only({state, 0, kUnknownStack}); }
  /// The set of exactly these configurations.
  SetId set_of(std::vector<Config> configs, bool complete);
  /// The set after returning from the rule of `config`.
  SetId returned(const Config& config);

  FreeSet export_configs(SetId set) const;
  SetId import_configs(const FreeSet& set);

  const CompiledGrammar& grammar() const { return *grammar_; }
  /// Configurations visited so far, a measure of the time spent.
  uint64_t work() const { return work_; }
  /// Bytes in use, approximately.
  size_t bytes() const;

 private:
  static constexpr uint32_t kNotKnown = UINT32_MAX;
  using Moves = std::array<uint32_t, 256>;

  struct Set {
    uint32_t begin, size;  ///< in configs_
    uint32_t reach;
    bool complete, escaped;
    std::unique_ptr<Moves> next;
  };
  struct Stack {
    uint32_t return_to;
    uint32_t parent;
    uint32_t depth;
  };

  SetId make_step(SetId set, uint8_t byte);
  uint32_t push(uint32_t return_to, uint32_t parent);
  void begin();
  void visit(const Config& config);
  void close(const Config& config);
  void leave_rule(const Config& config);
  bool may_leave(const Config& config) const;
  SetId intern();
  bool first_visit(const Config& config);

  std::shared_ptr<const CompiledGrammar> grammar_;
  std::vector<Set> sets_;
  std::vector<Config> configs_;
  std::unordered_multimap<uint64_t, SetId> set_ids_;
  std::vector<Stack> stacks_;
  std::unordered_map<uint64_t, uint32_t> stack_ids_;  ///< by return_to and parent
  uint64_t work_ = 0;
  size_t move_tables_ = 0;

  // The set being made.
  std::vector<Config> pending_;
  std::vector<Config> visited_;
  std::unordered_map<uint64_t, std::vector<Config>> visited_index_;
  std::vector<Config> made_;
  bool made_complete_ = false;
  bool made_escaped_ = false;
};

}  // namespace infer
